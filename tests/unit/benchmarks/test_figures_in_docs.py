"""RESULTS.md, README and docs hold the figures of results.json, and no measured time or ratio without a source."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import citations, report, trust
from benchmarks.figures import Figure

pytestmark = pytest.mark.unit
ROOT = Path(__file__).parents[3]
REPORTS = ("soak-report.md", "crash-report.md")
"""Pages that a command writes from what it has measured."""
_MEASURED = re.compile(r"\d (?:s|ms|times)\b")


def test_every_kept_report_may_be_believed() -> None:
    assert {kept.name: trust.doubts(kept) for kept in report.kept()} == {kept.name: [] for kept in report.kept()}


def test_the_page_of_results_is_written_from_them() -> None:
    assert report.RESULTS.read_text() == report.page(), "python -m benchmarks --write"


@pytest.mark.parametrize("page", citations.pages(ROOT), ids=lambda page: page.name)
def test_a_cited_figure_is_the_measured_one(page: Path) -> None:
    text = page.read_text()
    assert text == citations.written(text, citations.figures_of(report.kept())), "python -m benchmarks --write"


def test_a_figure_of_a_promise_has_a_source() -> None:
    paragraphs = (ROOT / "docs" / "promises.md").read_text().split("\n\n")
    figures = [text for text in paragraphs if text.startswith("Last figure") and not any(r in text for r in REPORTS)]
    assert figures
    assert [text for text in figures if _MEASURED.search(citations.without_citations(text))] == []


def test_the_speeds_have_a_source() -> None:
    rows = [line for line in (ROOT / "docs" / "speed.md").read_text().splitlines() if line.startswith("| ")][2:]
    assert len(rows) > 15
    assert [row for row in rows if len(citations.cited_in(row)) != 1 and "horizon" not in row] == []
    assert [row for row in rows if _MEASURED.search(citations.without_citations(row))] == []


def test_a_citation_gets_the_part_that_it_names() -> None:
    figures = {"a.b": Figure("a.b", "", (1.0, 3.0, 2.0), " s", 1, limit=1.5, at_least=False)}
    text = "<!--figure a.b-->old<!--end--> <!--figure a.b:spread--><!--end--> <!--figure a.b:target--><!--end-->"
    assert citations.without_citations(text).split() == []
    shown = re.sub(r"<!--.*?-->", "", citations.written(text, figures))
    assert shown == "2.0 s 1.0 to 3.0 s at most 1.5 s"
    assert citations.UNMEASURED in citations.written(text, {})


def test_a_part_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match=r"a\.b:mean is no part"):
        citations.written("<!--figure a.b:mean--><!--end-->", {"a.b": Figure("a.b", "", (1.0,))})
