"""Figures in README and docs: written from results.json, each between two comments that name it.

``<!--figure landing.speed-->1.20<!--end-->`` cites the median of a figure, ``landing.speed:spread`` its smallest and
largest run, ``:target`` its target, ``:verdict`` whether that is met, ``:runs`` how many runs there were.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from benchmarks.figures import Figure, Report

UNMEASURED = "not measured yet"
_CITED = re.compile(r"(<!--figure ([a-z0-9_.]+)(?::([a-z]+))?-->)(.*?)(<!--end-->)", re.DOTALL)


def cited_in(text: str) -> set[str]:
    """The names of the figures that ``text`` cites."""
    return {match[2] for match in _CITED.finditer(text)}


def without_citations(text: str) -> str:
    return _CITED.sub("", text)


def written(text: str, figures: Mapping[str, Figure]) -> str:
    """``text`` with each citation as the figures have it now."""

    def one(match: re.Match[str]) -> str:
        figure = figures.get(match[2])
        return f"{match[1]}{UNMEASURED if figure is None else _part(figure, match[3])}{match[5]}"

    return _CITED.sub(one, text)


def figures_of(reports: Iterable[Report]) -> dict[str, Figure]:
    return {figure.name: figure for report in reports for figure in report.figures}


def pages(project: Path) -> list[Path]:
    """README and docs. Decision records keep the figures of the day on which they were decided."""
    return [project / "README.md", *sorted((project / "docs").glob("*.md"))]


def _part(figure: Figure, part: str | None) -> str:
    match part:
        case None:
            return figure.text
        case "spread":
            return figure.spread
        case "target":
            return figure.target
        case "verdict":
            return figure.verdict
        case "runs":
            return str(len(figure.values))
    raise ValueError(f"{figure.name}:{part} is no part of a figure; there are spread, target, verdict and runs")
