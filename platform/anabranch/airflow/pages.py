"""Data Docs and verdicts as pages on Airflow's own server, for people who are logged in.

Airflow leaves an application of a plug-in open to everybody, so every route here asks for the user first.
Settings are read at each request, so the server starts without a platform.
"""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

from airflow.api_fastapi.core_api.security import get_user
from fastapi import Depends, FastAPI, HTTPException
from fastapi.responses import FileResponse, HTMLResponse

from anabranch.errors import AnabranchError
from anabranch.reconcile.verdict import read_verdict
from anabranch.settings import load_settings

PAGES = {".html", ".css", ".js", ".png", ".svg", ".ico", ".json", ".woff", ".woff2"}
app = FastAPI(title="Anabranch", dependencies=[Depends(get_user)], docs_url=None, redoc_url=None, openapi_url=None)


@app.get("/data_docs/{path:path}")
def data_docs(path: str) -> FileResponse:
    """A file of the Data Docs that reconciliation has written."""
    file = inside(load_settings().home / "data_docs", path or "index.html")
    if file is None:
        raise HTTPException(404, "no such page; the first reconciliation writes them")
    return FileResponse(file)


@app.get("/verdicts/{view}/{version}/{run}")
def verdict(view: str, version: int, run: str) -> HTMLResponse:
    """The verdict on the build of one run."""
    try:
        found = read_verdict(load_settings(), view, version, run)
    except AnabranchError as error:
        raise HTTPException(404, error.what) from None
    return HTMLResponse(as_page(f"{view} v{version}, run {run}", found.to_json()))


def inside(folder: Path, path: str) -> Path | None:
    """The file at ``path`` below ``folder``; None for anything else, links that lead out of it included."""
    try:
        file = (folder / path).resolve()
        return file if file.is_relative_to(folder.resolve()) and file.suffix in PAGES and file.is_file() else None
    except (OSError, ValueError):
        return None


def as_page(title: str, content: dict[str, Any]) -> str:
    """A record as a page of HTML; whatever is in it is shown as text."""
    report = html.escape(content.pop("report", ""))
    text = html.escape(json.dumps(content, indent=2, ensure_ascii=False))
    return f"<!doctype html><meta charset=utf-8><title>{html.escape(title)}</title><pre>{report}\n{text}</pre>"
