"""RESULTS.md, rendered from results.json beside it: both hold only what a full run at a commit has measured."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.cases import CASES
from benchmarks.figures import Figure, Origin, Report, Table
from benchmarks.trust import doubts

FOLDER = Path(__file__).parent
RESULTS, KEPT = FOLDER / "RESULTS.md", FOLDER / "results.json"


def keep(report: Report) -> None:
    """Replace the kept report of its benchmark. ValueError when it may not be believed."""
    if reasons := doubts(report):
        raise ValueError(f"{report.name} gives no figure: {'; '.join(reasons)}")
    found = {old.name: old for old in kept()} | {report.name: report}
    reports = [found[name].to_json() for name in CASES if name in found]
    KEPT.write_text(json.dumps({"reports": reports}, indent=1) + "\n")


def kept() -> list[Report]:
    content: dict[str, Any] = json.loads(KEPT.read_text()) if KEPT.exists() else {"reports": []}
    return [Report.from_json(each) for each in content["reports"]]


def page() -> str:
    """RESULTS.md as it should be."""
    return render(kept())


def render(reports: Sequence[Report]) -> str:
    """The page, in Markdown. A report that may not be believed is named, without a figure of its."""
    lines = ["# Figures", "", "Written by `make bench` from `results.json`; nothing here is edited by hand.", ""]
    believed = [report for report in reports if not doubts(report)]
    lines += [*_origins(believed), "", *_summary(believed)]
    for report in reports:
        lines += ["", f"## {report.title}", "", report.what, "", *_section(report)]
    return "\n".join(lines) + "\n"


def _section(report: Report) -> list[str]:
    if reasons := doubts(report):
        return ["**No figure**:", "", *(f"- {reason}" for reason in reasons)]
    lines = [_origin(report)]
    for table in report.tables:
        lines += ["", *_table(table)]
    figures = [f"{_line(figure)}" for figure in report.figures]
    return [*lines, "", *(f"- {line}" for line in (*figures, *report.notes))]


def _origin(report: Report) -> str:
    assert report.origin is not None
    runs = sorted({len(values) for values in report.samples.values()})
    counts = f"{runs[0]}" if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
    return (
        f"Commit {report.origin.commit}, {report.origin.when}; {counts} runs; before: {report.origin.busy:.0%} of the "
        f"cores in use; {report.origin.stolen:.0%} of the time stolen by the host{_speed(report.origin)}."
    )


def _speed(origin: Origin) -> str:
    if not origin.speed:
        return ""
    one, every, *trips = origin.speed
    calls = f", {trips[0]:,.0f} round trips a second over loopback" if trips else ""
    return f"; speed of the machine: {one:.0f} MB/s packed by one core, {every:.0f} by all{calls}"


def _origins(reports: Sequence[Report]) -> list[str]:
    """What was measured on which machine, with which software and at which commit; and what has not been measured."""
    lines = []
    for what in ("hardware", "software", "commit"):
        found: dict[str, list[str]] = {}
        for report in reports:
            found.setdefault(getattr(_known(report), what) or "not kept", []).append(report.name)
        everywhere = len(found) == 1
        lines += [
            f"- {what}: {each}" + ("" if everywhere else f": {', '.join(names)}") for each, names in found.items()
        ]
    missing = [name for name in CASES if name not in {report.name for report in reports}]
    return lines + ([f"- **not measured yet**: {', '.join(missing)}"] if missing else [])


def _known(report: Report) -> Origin:
    assert report.origin is not None
    return report.origin


def _summary(reports: Sequence[Report]) -> list[str]:
    rows = [
        (figure.what, figure.target, figure.text, figure.spread, figure.verdict)
        for report in reports
        for figure in report.figures
        if figure.limit is not None
    ]
    return _table(Table("", ("promise", "target", "median", "spread", ""), tuple(rows)))


def _line(figure: Figure) -> str:
    target = f", target {figure.target}: {figure.verdict}" if figure.limit is not None else ""
    return f"{figure.what} (`{figure.name}`): {figure.text}, {figure.spread}{target}"


def _table(table: Table) -> list[str]:
    title = [f"{table.title}:", ""] if table.title else []
    lines = [table.columns, tuple("---" for _ in table.columns), *table.rows]
    return title + [f"| {' | '.join(cells)} |" for cells in lines]
