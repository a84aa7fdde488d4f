"""Makes Great Expectations' pages readable without a network.

They load styles, icons and scripts from other sites, and a browser shows nothing until those have come or failed. What
they say of checks is in the HTML already, so scripts and what comes from elsewhere are taken out, and a few styles of
our own are put in."""

from __future__ import annotations

import html
import re
from datetime import UTC
from pathlib import Path
from urllib.parse import quote

from anabranch.certify.verdict import Verdict
from anabranch.core.atomic_files import write_atomically

_SCRIPT = re.compile(r"<script\b.*?</script\s*>", re.DOTALL | re.IGNORECASE)
_ELSEWHERE = re.compile(r'<(?:link|img)\b[^>]*\b(?:href|src)\s*=\s*"(?:https?:)?//[^"]*"[^>]*>', re.IGNORECASE)
STYLE = """<style>
:root { color-scheme: light dark; }
body { margin: 0 2rem 3rem; font: 14px/1.5 system-ui, sans-serif; }
table { border-collapse: collapse; margin: .5rem 0; }
th, td { padding: .3rem .8rem; border: 1px solid #8888; text-align: left; vertical-align: top; }
.modal, .ge-walkthrough-modal, .card:has(input, button), .navbar img, label, input { display: none; }
.fa-check-circle::before { content: "\\2713 passed"; }
.fa-times::before { content: "\\2717 failed"; }
.fa-exclamation-triangle::before { content: "\\26A0 could not run"; }
</style>"""


def make_static(page: Path) -> None:
    """Rewrites a page. Idempotent."""
    text = _ELSEWHERE.sub("", _SCRIPT.sub("", page.read_text()))
    if STYLE not in text:
        text = text.replace("</head>", f"{STYLE}</head>", 1)
    write_atomically(page, text)


def write_listing(path: Path, title: str, entries: list[tuple[str, str]]) -> Path:
    """Writes a page of links, each an address relative to it and a text."""
    lines = (f'<li><a href="{html.escape(address)}">{html.escape(text)}</a></li>' for address, text in entries)
    head = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>{STYLE}</head>'
    )
    return write_atomically(path, f"{head}<body><h1>{html.escape(title)}</h1><ul>{''.join(lines)}</ul></body></html>\n")


def write_run_index(folder: Path, verdict: Verdict) -> Path:
    """Writes the page that leads to the results of each table of a run; theirs is made by its scripts only. A run that
    was repeated has pages of each time, in folders that are named by the time of the verdict: this one's are meant."""
    own = f"{verdict.created.astimezone(UTC):%Y%m%dT%H%M%S.%fZ}"
    pages = sorted((folder / "validations").rglob("*.html"), key=lambda page: (page.parent.name == own, page))
    newest = {page.relative_to(folder).parts[1]: page.relative_to(folder) for page in pages}
    entries = []
    for table, page in sorted(newest.items()):
        results = [result for result in verdict.results if result.table == table]
        passed = sum(not result.failed for result in results)
        entries.append((quote(str(page)), f"{table}: {passed} of {len(results)} checks passed"))
    title = f"Checks of {verdict.view} v{verdict.version}, run {verdict.run}, {verdict.created:%Y-%m-%d %H:%M:%S} UTC"
    return write_listing(folder / "index.html", title, entries)
