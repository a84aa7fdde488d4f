"""Links between our pages lead somewhere, every page can be found from the README, and that one stays short."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from anabranch.core.project_folder import project_root

pytestmark = pytest.mark.unit
ROOT = project_root()
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").glob("*.md")])
README_LINES = 150
_CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\(\s*([^)\s]+)\s*\)")


def links(page: Path) -> list[tuple[Path, str]]:
    """The file and the anchor of each link of a page that leads to no other host."""
    found = _LINK.findall(_CODE.sub("", page.read_text()))
    inside = (link.partition("#") for link in found if not re.match(r"[a-z]+:", link))
    return [((page.parent / unquote(path)).resolve() if path else page, anchor) for path, _, anchor in inside]


def anchors(page: Path) -> set[str]:
    """As GitHub makes them from headings."""
    headings = re.findall(
        r"^#+ (.+)$", _CODE.sub(lambda m: "" if m[0].startswith("```") else m[0], page.read_text()), re.M
    )
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_link_leads_somewhere(page: Path) -> None:
    wrong = [
        f"{target.relative_to(ROOT)}#{anchor}"
        for target, anchor in links(page)
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target))
    ]
    assert wrong == []


def test_every_page_can_be_found_from_the_readme() -> None:
    seen, left = set[Path](), [ROOT / "README.md"]
    while left:
        page = left.pop()
        if page not in seen:
            seen.add(page)
            left += [target for target, _ in links(page) if target.suffix == ".md" and target.exists()]
    assert [str(page.relative_to(ROOT)) for page in PAGES if page not in seen] == []


def test_the_readme_stays_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= README_LINES
