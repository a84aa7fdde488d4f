"""Serves files: Data Docs and verdicts of runs, and the static files of our pages."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import FileResponse, Response

from anabranch.apps.web._pages import Platform
from anabranch.apps.web._render import guarded, page
from anabranch.certify.verdict import read_verdict
from anabranch.change.run_names import recorded_run
from anabranch.core.errors import AnabranchError
from anabranch.lake.layout import VersionRef

PAGES = {".html", ".css", ".js", ".png", ".svg", ".ico", ".json", ".woff", ".woff2"}
_STATIC = Path(__file__).parent / "static"
# Great Expectations' pages hold no script any more (certify/_static_pages.py); those of older runs do.
_SANDBOX = "sandbox allow-popups; object-src 'none'; base-uri 'none'; frame-ancestors 'self'"
_DAYS = 20
"""Maximum number of days that are listed for a check that failed."""
router = APIRouter()


@router.get("/static/{name}")
def static(name: str) -> Response:
    file = inside(_STATIC, name)
    if file is None:
        raise HTTPException(404, "there is no such file")
    return FileResponse(file)


@router.get("/data_docs/{path:path}")
def data_docs(settings: Platform, path: str) -> Response:
    """Returns a file of the Data Docs that reconciliation wrote."""
    file = inside(settings.home / "data_docs", path or "index.html")
    if file is None:
        raise HTTPException(404, "no such page; the first reconciliation writes them")
    return guarded(FileResponse(file), _SANDBOX)


@router.get("/verdicts/{view}/{version}/{run}")
def verdict(request: Request, settings: Platform, view: str, version: int, run: str) -> Response:
    """Returns the page of the verdict on one run's build."""
    try:
        found = read_verdict(VersionRef(settings, view, version), run)
    except AnabranchError:
        raise HTTPException(404, "there is no verdict on this run") from None
    return page(request, "verdict.html", verdict=found, shown=_DAYS, run_of=partial(recorded_run, settings))


def inside(folder: Path, path: str) -> Path | None:
    """Returns the file at ``path`` below ``folder``; None for anything else, also for links that lead outside."""
    try:
        file = (folder / path).resolve()
        return file if file.is_relative_to(folder.resolve()) and file.suffix in PAGES and file.is_file() else None
    except (OSError, ValueError):
        return None
