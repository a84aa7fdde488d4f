"""A benchmark in parts: what was measured again takes its place, everything else stays, and targets are of all."""

from __future__ import annotations

import pytest

from benchmarks.cases.operators import merged
from benchmarks.figures import Report, Table

pytestmark = pytest.mark.unit
COLUMNS = ("operator", "view", "measured (UTC)")


def report(when: str, **seconds: tuple[float, float]) -> Report:
    """Each view with the seconds of both halves; every hand-written job takes 9."""
    rows = tuple(("words", f"`{view}`", when) for view in seconds)
    jobs = {
        f"{view} {half}": [took]
        for view, pair in seconds.items()
        for half, took in zip(("speed", "batch"), pair, strict=True)
    }
    samples = jobs | {f"{job}, hand-written": [9.0] for job in jobs}
    return Report("operators", "Operators", "", (Table("", COLUMNS, rows),), samples=samples, when=when)


def test_what_was_measured_again_takes_its_place() -> None:
    old = report("monday", turns=(12.0, 9.0), bad_runs=(10.0, 18.0))
    found = merged(old, report("tuesday", turns=(9.0, 9.0)))
    assert [row[1:] for row in found.tables[0].rows] == [("`bad_runs`", "monday"), ("`turns`", "tuesday")]
    assert found.samples["turns speed"] == [9.0]
    assert found.samples["bad_runs batch"] == [18.0]
    assert [(target.what.split("(")[1].split(")")[0], target.value) for target in found.targets] == [
        ("bad_runs", 0.9),
        ("bad_runs", 0.5),
    ]
