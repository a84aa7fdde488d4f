"""`make docs`: the site is built from our pages and docstrings without a warning, and needs no network."""

from __future__ import annotations

import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest
from anabranch.core.project_folder import project_root

pytestmark = pytest.mark.unit
ROOT = project_root()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sphinx ends with an error for each warning: a link to nothing, a page in no table of contents."""
    folder = tmp_path_factory.mktemp("site") / "docs"
    done = subprocess.run(
        [sys.executable, ROOT / "infra" / "docs" / "build.py", folder], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return folder


def test_every_page_is_there_and_the_tutorial_is_first(site: Path) -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").glob("*.md")]
    assert [str(p) for p in pages if not (site / p.relative_to(ROOT)).with_suffix(".html").exists()] == []
    first = re.findall(r'<a class="reference internal" href="([^"#]+)"', (site / "index.html").read_text())
    assert first[0] == "docs/tutorial-first-view.html"


def test_it_shows_diagrams_and_loads_nothing_from_another_host(site: Path) -> None:
    page = (site / "docs" / "architecture.html").read_text()
    diagram = re.search(r'<pre class="mermaid">(.*?)</pre>', page, re.DOTALL)
    assert diagram is not None
    source = (ROOT / "docs" / "architecture.md").read_text()
    assert unescape(diagram[1]).strip() in source, "the text that GitHub draws"
    assert (site / "_static" / "mermaid.min.js").stat().st_size > 100_000
    for html in site.rglob("*.html"):
        loaded = re.findall(r'<(?:script|img|link|iframe)[^>]+(?:src|href)="([^"]+)"', html.read_text())
        assert [link for link in loaded if re.match(r"(?:\w+:)?//", link)] == [], html


@pytest.mark.parametrize(
    ("page", "name"),
    [
        ("reading", "anabranch.read"),
        ("views", "anabranch.views.view"),
        ("contracts", "anabranch.contracts.Topic"),
        ("testing", "anabranch.testing.prove"),
        ("settings", "anabranch.core.settings.Settings.keep_days"),
        ("backup", "anabranch.operate.backup.create_backup"),
        ("plugins", "anabranch.apps.cli.plugins.Sample"),
        ("errors", "anabranch.core.errors.Conflict"),
    ],
)
def test_the_reference_has_the_public_names_with_their_docstrings(site: Path, page: str, name: str) -> None:
    text = (site / "api" / f"{page}.html").read_text()
    described = text.partition(f'id="{name}"')[2].partition("</dt>")[2]
    assert re.match(r"\s*<dd><p>\w", described), name
