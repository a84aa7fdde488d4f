"""A landing with many commits: what a replay's mirror and a trial hold of its log in memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from anabranch.change.replay.landing_mirror import LandedCommit, LandedCommits, Mirror
from anabranch.ingest.landing.table.event_counts import EpochCounts
from anabranch.lake.cut import Cut, Position
from anabranch.lake.log import archived_commits
from anabranch.lake.log.archived_commits import ARCHIVE, LOG, commit_name, kept_versions, log_files, versions
from anabranch.operate.trial import _temporary_home

pytestmark = pytest.mark.unit
COMMITS = 50_000
MOST = 120
"""Bytes a commit: those of a name and of a number. A path has some hundred, a parsed commit a thousand."""


@pytest.fixture
def long_log(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The names of a log: each commit with its checksum, most of them archived."""

    def names(folder: Path) -> list[str]:
        numbers = {ARCHIVE: range(COMMITS - 200), LOG: range(COMMITS - 200, COMMITS)}[folder.name]
        found = [commit_name(number) for number in numbers]
        return [*found, *(f"{number:020d}.checkpoint.parquet" for number in numbers if number % 1_000 == 0)]

    monkeypatch.setattr(archived_commits, "storage_of", lambda _: SimpleNamespace(names=names))
    return Path("/no/such/table")


def peak(work: Callable[[], Any]) -> float:
    """The most bytes a commit that were held at once."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] / COMMITS
    finally:
        tracemalloc.stop()


def test_the_names_of_its_log_are_passed_one_by_one(long_log: Path) -> None:
    mirror = Mirror.__new__(Mirror)
    mirror._landing = long_log

    def oldest_checkpoint() -> None:
        assert min(v for name, v in mirror._log_names() if ".checkpoint" in name) == 0

    assert peak(oldest_checkpoint) < MOST


def test_its_versions_are_numbers_and_their_ends_need_no_list(long_log: Path) -> None:
    assert versions(long_log) == list(range(COMMITS))
    assert peak(lambda: versions(long_log)) < 2 * MOST
    found = kept_versions(long_log)
    assert (max(found), min(kept_versions(long_log))) == (COMMITS - 1, 0)
    assert peak(lambda: max(kept_versions(long_log))) < MOST


def test_its_files_come_in_the_order_of_their_versions(long_log: Path) -> None:
    found = list(islice(log_files(long_log), 2_000))
    assert [version for version, _ in found] == sorted([0, 1_000, *range(1_998)])
    assert {path.parent.name for _, path in found} == {ARCHIVE}
    assert peak(lambda: next(log_files(long_log))) < 2.5 * MOST


def commits(topic: str) -> Iterator[LandedCommit]:
    for number in range(COMMITS // 2):
        cut = Cut({topic: Position(number + 1, dict.fromkeys(range(4), number))})
        yield LandedCommit(number, 1_000 * number + len(topic), 1, 1, cut)


def test_a_trial_s_steps_hold_no_commit_but_their_last_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LandedCommits, "read_new", lambda self: commits(self._table.name))
    whole = Cut({topic: Position(COMMITS, {}) for topic in ("one", "other")})
    counts = [EpochCounts("a.b", None, number, 1, 0) for number in range(1, COMMITS // 2 + 1)]  # type: ignore[arg-type]
    steps = list[Any]()

    def planned() -> None:
        steps[:] = _temporary_home.steps_of({"one": "/x/one", "other": "/x/other"}, counts, {"a.b": "one"}, whole)

    assert peak(planned) < MOST
    assert len(steps) == 5, "four with events, and what is behind the last of them"
    assert [versions["one"] for versions, _ in steps[:4]] == [COMMITS // 8 * n - 1 for n in range(1, 5)]
    last = COMMITS // 2 - 1
    assert steps[-1][0] == {"other": last}
    assert [steps[-1][1].epoch(topic) for topic in ("one", "other")] == [last + 1, last + 1]
