"""Whether a report may be believed. One that may not gives no figure, and says why."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from benchmarks.figures import Report

MIN_RUNS = 5
IDLE = 0.1
"""The largest share of all cores that may be in use before a run."""
_IDLE_PATIENCE = 120.0
_SOURCES = ("platform", "spark_jobs", "dags", "benchmarks", "requirements.lock", "infra")
_WRITTEN = (":!benchmarks/results.json", ":!benchmarks/RESULTS.md")
"""What benchmarks themselves write."""


def doubts(report: Report) -> list[str]:
    """Why no figure of ``report`` stands; empty when all do."""
    origin = report.origin
    if origin is None:
        return ["commit, date and load before the run were not recorded"]
    found = []
    if origin.size != "full":
        found.append(f"a {origin.size} run shows that the benchmark works, not how fast anything is")
    if not origin.commit:
        found.append("the sources are not those of a commit: commit them first")
    if origin.busy > IDLE:
        found.append(f"{origin.busy:.0%} of the cores were in use before the run (at most {IDLE:.0%})")
    values = {**report.samples, **{figure.name: figure.values for figure in report.figures}}
    found += [
        f"{name}: {len(runs)} runs (at least {MIN_RUNS})" for name, runs in values.items() if len(runs) < MIN_RUNS
    ]
    if not report.samples:
        found.append("the runs were not kept")
    return found


def commit_of(project: Path) -> str:
    """The newest commit that changed a source of the platform or of a benchmark: a commit of tests or texts leaves
    figures as they are. "" when a source differs from it."""

    program = shutil.which("git")
    if program is None:
        return ""

    def git(*arguments: str) -> str:
        return subprocess.run(
            [program, "-C", str(project), *arguments], capture_output=True, text=True, timeout=60, check=True
        ).stdout.strip()

    sources = ("--", *_SOURCES, *_WRITTEN)
    try:
        return (
            "" if git("status", "--porcelain", *sources) else git("log", "-1", "--format=%h", "--abbrev=12", *sources)
        )
    except (OSError, subprocess.SubprocessError):
        return ""


def busy_share(patience: float = _IDLE_PATIENCE, look: float = 5.0) -> float:
    """The share of all cores in use over ``look`` seconds, time stolen by the host included: the first one that counts
    as idle, or the last one before ``patience`` seconds were over."""
    until = time.monotonic() + patience
    while True:
        share = float(psutil.cpu_percent(look)) / 100
        if share <= IDLE or time.monotonic() > until:
            return share


@contextmanager
def stolen_share() -> Iterator[list[float]]:
    """The share of the cores' time that the host took away while the block ran, as the one item of a list."""
    before, found = psutil.cpu_times(), [0.0]
    yield found
    after = psutil.cpu_times()
    whole = sum(after[: len(before)]) - sum(before)
    found[0] = (getattr(after, "steal", 0.0) - getattr(before, "steal", 0.0)) / whole if whole else 0.0
