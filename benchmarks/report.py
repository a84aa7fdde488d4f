"""RESULTS.md: every kept report, rendered from results.json beside it, so that one benchmark can be run alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.cases import CASES, operators
from benchmarks.figures import Report, Table, Target

FOLDER = Path(__file__).parent
RESULTS, KEPT = FOLDER / "RESULTS.md", FOLDER / "results.json"


def keep(report: Report) -> None:
    """Put a report in the place of the last one of its benchmark, or of that one's rows that it has measured again."""
    found = {old.name: old for old in kept()}
    if report.name == "operators" and report.name in found:
        report = operators.merged(found[report.name], report)
    found[report.name] = report
    KEPT.write_text(json.dumps([found[name].to_json() for name in CASES if name in found], indent=1) + "\n")


def kept() -> list[Report]:
    return [Report.from_json(content) for content in json.loads(KEPT.read_text())] if KEPT.exists() else []


def render(reports: Sequence[Report], machine: Iterable[str], *, quick: bool) -> str:
    """The page, in Markdown."""
    lines = ["# Figures", ""]
    lines += ["Made by `make bench` (`python -m benchmarks [NAME ...]`); nothing here is written by hand."]
    if quick:
        lines += ["", "**A quick run**: January only, three runs each. It shows that all works, not how fast."]
    lines += ["", *machine, "", *_targets(reports)]
    for report in reports:
        lines += [
            "",
            f"## {report.title}",
            "",
            report.what,
            "",
            f"{report.when}; load before: {report.load:.1f}",
        ]
        for table in report.tables:
            lines += ["", *_table(table)]
        lines += ["", *(f"- {_told(target)}" for target in report.targets), *(f"- {note}" for note in report.notes)]
    return "\n".join(lines) + "\n"


def _targets(reports: Sequence[Report]) -> list[str]:
    rows = [
        (target.what, _limit(target), f"{target.value:.2f}{target.unit}", target.verdict)
        for report in reports
        for target in report.targets
    ]
    return _table(Table("", ("promise", "target", "measured", ""), tuple(rows)))


def _limit(target: Target) -> str:
    return f"at {'least' if target.at_least else 'most'} {target.limit:g}{target.unit}"


def _told(target: Target) -> str:
    return f"{target.what}: {target.value:.2f}{target.unit}, target {_limit(target)}: {target.verdict}"


def _table(table: Table) -> list[str]:
    title = [f"{table.title}:", ""] if table.title else []
    lines = [table.columns, tuple("---" for _ in table.columns), *table.rows]
    return title + [f"| {' | '.join(cells)} |" for cells in lines]
