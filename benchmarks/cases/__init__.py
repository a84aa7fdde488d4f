"""The benchmarks by name: where each one's code is, and what has to be there before it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Case:
    """``log``: needs the running broker with all flights; ``landed``: needs the landing table filled from it. Neither:
    starts a platform of its own. ``timeout`` is in seconds, for a full run."""

    name: str
    module: str
    log: bool = False
    landed: bool = False
    timeout: float = 1800.0


CASES: Final = {
    case.name: case
    for case in (
        Case("landing", "benchmarks.cases.landing", log=True, timeout=3600),
        Case("formats", "benchmarks.cases.formats", log=True, timeout=3600),
        Case("batch", "benchmarks.cases.batch", landed=True),
        Case("speed", "benchmarks.cases.speed", landed=True),
        Case("operators", "benchmarks.cases.operators", log=True, landed=True, timeout=5400),
        Case("horizon", "benchmarks.cases.horizon", timeout=3600),
        Case("refresh", "benchmarks.cases.refresh"),
        Case("searches", "benchmarks.cases.searches"),
        Case("exactness", "benchmarks.cases.exactness"),
        Case("reads", "benchmarks.cases.reads"),
        Case("explain", "benchmarks.cases.explain", landed=True),
        Case("reprocess", "benchmarks.cases.reprocess"),
        Case("day_again", "benchmarks.cases.day_again", timeout=3600),
        Case("start", "benchmarks.cases.start", timeout=7200),
        Case("load", "benchmarks.cases.load", timeout=3600),
        Case("http", "benchmarks.cases.http", timeout=900),
        Case("pages", "benchmarks.cases.pages", timeout=900),
        Case("history", "benchmarks.cases.history", landed=True),
        Case("replay", "benchmarks.cases.replay"),
        Case("replay_alone", "benchmarks.cases.replay_alone", landed=True),
        Case("nexmark", "benchmarks.cases.nexmark"),
        Case("freshness", "benchmarks.cases.freshness", timeout=900),
    )
}
