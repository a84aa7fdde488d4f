"""A replay is paused (SIGSTOP), and its successor comes: the same run's next try, or another run."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from anabranch.change.replay.state import PUBLISHED
from anabranch.compute.speed.checkpoint_handover import REPLAY
from anabranch.core.errors import EXIT_NEEDS_FIX
from anabranch.core.settings import Settings
from anabranch.lake import commit_history
from anabranch.lake.layout import VersionRef
from anabranch.operate.doctor._run_checks import Report
from support.landed_history import DELAYS, history
from support.real_programs import process
from support.running_replay import in_the_middle, replay, standing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.system, pytest.mark.sweep, pytest.mark.timeout(600)]


def test_its_successor_is_refused_while_it_is_there_and_it_goes_on_when_it_wakes(
    spark: SparkSession, settings: Settings, diagnosis: Callable[..., Report]
) -> None:
    history(spark, settings)
    with process(settings, "replay", arguments=replay("one")) as zombie:
        before = in_the_middle(settings, "one", zombie)
        zombie.signal_all(signal.SIGSTOP)
        for run in ("one", "two"):
            with process(settings, "replay", arguments=replay(run)) as successor:
                assert successor.popen.wait(90) == EXIT_NEEDS_FIX, successor.said[-2_000:]
                assert "[REPLAY_RUNNING]" in successor.said
        assert standing(settings, "one") == before, "a successor has changed what it doesn't have"
        assert standing(settings, "two") is None
        zombie.signal_all(signal.SIGCONT)
        assert zombie.popen.wait(120) == 0, zombie.said[-2_000:]
    after = standing(settings, "one")
    assert after is not None
    assert (after.phase, after.equal) == (PUBLISHED, after.partitions), after.said
    commits = commit_history(VersionRef(settings, DELAYS.name, 1).speed_table)
    assert [each.note.extra.get(REPLAY) for each in commits].count("one") == 1
    assert not diagnosis(settings).findings


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
