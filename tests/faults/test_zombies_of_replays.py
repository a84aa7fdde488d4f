"""A replay is paused (SIGSTOP) while it builds or inside its publication, and its successor comes: the same run's next
try, or another run. It is ended after the stated time (ADR 50), or goes on if it wakes before."""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import psutil
import pytest
from anabranch.change.replay.rate_limit import Pace
from anabranch.change.replay.request import ReplayRequest
from anabranch.change.replay.runner import replay as replay_in_process
from anabranch.change.replay.state import PUBLISHED
from anabranch.compute.speed.checkpoint_handover import REPLAY
from anabranch.core import _lock_holders
from anabranch.core.errors import EXIT_NEEDS_FIX
from anabranch.core.settings import Settings
from anabranch.lake import commit_history
from anabranch.lake.layout import VersionRef
from anabranch.operate.doctor._run_checks import Report
from anabranch.views.model.handle import ViewHandle
from deltalake import DeltaTable
from support.landed_history import DELAYS, history
from support.landed_sample import FLIGHTS
from support.processes import alive, eventually
from support.real_programs import Process, process
from support.running_replay import in_the_middle, replay, standing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]
STOPS = """
import os, signal, sys
from anabranch.lake import commits
from anabranch.operate.jobs.replay import leave, main

WHERE, LIVE, sys.argv[1:] = sys.argv[1], sys.argv[2], sys.argv[3:]
settle = commits.commit_or_confirm

def stops(uri, read, mark, commit):
    if WHERE == "before" and LIVE in uri:
        os.kill(os.getpid(), signal.SIGSTOP)
    version = settle(uri, read, mark, commit)
    if WHERE == "after" and LIVE in uri:
        os.kill(os.getpid(), signal.SIGSTOP)
    return version

commits.commit_or_confirm = stops
leave(main())
"""


def is_stopped(program: Process) -> bool:
    assert program.popen.poll() is None, program.said[-2_000:]
    return program.members()[0].status() == psutil.STATUS_STOPPED


def waits(successor: Process) -> bool:
    return "waiting for the lock" in successor.said


def live(settings: Settings) -> str:
    return VersionRef(settings, DELAYS.name, 1).speed_table


def rows(settings: Settings) -> list[str]:
    columns = ["origin", "window_start", "flights"]
    return sorted(map(str, DeltaTable(live(settings)).to_pyarrow_table(columns=columns).to_pylist()))


def published_by(settings: Settings) -> list[object]:
    return [each.note.extra[REPLAY] for each in commit_history(live(settings)) if REPLAY in each.note.extra]


@pytest.mark.sweep
@pytest.mark.parametrize("where", ["before", "after"])
def test_inside_its_publication_it_is_ended_and_its_next_try_publishes_once(
    spark: SparkSession,
    settings: Settings,
    diagnosis: Callable[..., Report],
    monkeypatch: pytest.MonkeyPatch,
    where: str,
) -> None:
    monkeypatch.setattr(_lock_holders, "STOPPED_SECONDS", 2.0)
    history(spark, settings)
    before = rows(settings)
    with process(settings, "replay", arguments=[where, live(settings), *replay("one")], code=STOPS) as zombie:
        eventually(lambda: is_stopped(zombie), 60)
        family = zombie.members()
        assert zombie.has_engine
        assert len(published_by(settings)) == (where == "after")
        view = ViewHandle(settings, DELAYS, FLIGHTS)
        after = replay_in_process(spark, ReplayRequest(view, "one", pace=Pace(1.0)))
        assert zombie.popen.wait(10) == -signal.SIGKILL
        eventually(lambda: not any(alive(member) for member in family), 10)
    assert (after.phase, after.equal) == (PUBLISHED, after.partitions), after.said
    assert published_by(settings) == ["one"]
    assert rows(settings) == before
    assert not diagnosis(settings).findings


@pytest.mark.sweep
def test_while_it_builds_another_run_ends_it_and_its_next_try_goes_on(
    spark: SparkSession, settings: Settings, diagnosis: Callable[..., Report]
) -> None:
    """With the time as it is, and its JVM stopped as well: that wouldn't notice that its driver has ended."""
    history(spark, settings)
    rows_before = rows(settings)
    with process(settings, "replay", arguments=replay("one")) as zombie:
        before = in_the_middle(settings, "one", zombie)
        zombie.signal_all(signal.SIGSTOP)
        family = zombie.members()
        with process(settings, "replay", arguments=replay("two")) as other:
            assert other.popen.wait(120) == EXIT_NEEDS_FIX, other.said[-2_000:]
            assert f"ending pid {zombie.popen.pid} (" in other.said
            assert "[REPLAY_RUNNING]" in other.said
        assert zombie.popen.wait(10) == -signal.SIGKILL
        eventually(lambda: not any(alive(member) for member in family), 10)
    assert standing(settings, "one") == before, "another run has changed what it doesn't have"
    assert standing(settings, "two") is None
    with process(settings, "replay", arguments=replay("one")) as successor:
        assert successor.popen.wait(120) == 0, successor.said[-2_000:]
    after = standing(settings, "one")
    assert after is not None
    assert (after.phase, after.equal) == (PUBLISHED, after.partitions), after.said
    assert after.done == after.total >= before.done
    assert published_by(settings) == ["one"]
    assert rows(settings) == rows_before
    assert not diagnosis(settings).findings


@pytest.mark.sweep
def test_the_next_try_goes_on_where_one_was_that_was_killed_in_its_sleep(
    spark: SparkSession, settings: Settings, diagnosis: Callable[..., Report]
) -> None:
    """As a person does it who has found out which one hangs."""
    history(spark, settings)
    with process(settings, "replay", arguments=replay("one")) as zombie:
        before = in_the_middle(settings, "one", zombie)
        zombie.signal_all(signal.SIGSTOP)
        zombie.end()
        with process(settings, "replay", arguments=replay("one")) as successor:
            assert successor.popen.wait(120) == 0, successor.said[-2_000:]
    after = standing(settings, "one")
    assert after is not None
    assert after.phase == PUBLISHED
    assert after.done == after.total >= before.done
    assert not diagnosis(settings).findings


@pytest.mark.sweep
def test_its_successor_is_refused_if_it_wakes_before_the_time_is_up_and_it_goes_on(
    spark: SparkSession, settings: Settings, diagnosis: Callable[..., Report]
) -> None:
    history(spark, settings)
    with process(settings, "replay", arguments=replay("one")) as paused:
        before = in_the_middle(settings, "one", paused)
        paused.signal_all(signal.SIGSTOP)
        with (
            process(settings, "replay", arguments=replay("one")) as again,
            process(settings, "replay", arguments=replay("two")) as other,
        ):
            successors = (again, other)
            for successor in successors:
                eventually(partial(waits, successor), 60)
            assert standing(settings, "one") == before, "a successor has changed what it doesn't have"
            paused.signal_all(signal.SIGCONT)
            for successor in successors:
                assert successor.popen.wait(60) == EXIT_NEEDS_FIX, successor.said[-2_000:]
                assert "[REPLAY_RUNNING]" in successor.said
                assert f"held by pid {paused.popen.pid} (" in successor.said
        assert standing(settings, "two") is None
        assert paused.popen.wait(120) == 0, paused.said[-2_000:]
    after = standing(settings, "one")
    assert after is not None
    assert (after.phase, after.equal) == (PUBLISHED, after.partitions), after.said
    assert published_by(settings) == ["one"]
    assert not diagnosis(settings).findings
