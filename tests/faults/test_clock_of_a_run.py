"""The clock is set by a day, ahead and back, while days are rebuilt and published, and while a view is replayed
(libfaketime): what came in last holds, and the doctor names what is dated ahead for as long as it is."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from anabranch.certify.certificates import newest_certificates
from anabranch.change.replay.state import PUBLISHED, list_states
from anabranch.change.reprocess_plan import make_plan
from anabranch.change.reprocess_request import ReprocessRequest
from anabranch.compute.batch.publish import publications
from anabranch.compute.speed.view_stream import catch_up
from anabranch.core.settings import Settings
from anabranch.lake.layout import VersionRef
from anabranch.operate.doctor._run_checks import Report
from anabranch.views.model.handle import ViewHandle
from support.fake_time import Clock
from support.landed_history import DELAYS, departed, history
from support.landed_sample import FLIGHTS
from support.processes import eventually
from support.real_programs import process, publish
from support.running_replay import in_the_middle, replay, standing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.system, pytest.mark.sweep, pytest.mark.timeout(900)]
DAY = date(2013, 1, 2)


def rebuilt(settings: Settings, clock: Clock, run: str, shift: str) -> dict[str, Any]:
    """The run's plan, once its day is rebuilt; the clock is set while the engine is at it."""
    clock.set("+0")
    plan = make_plan(ViewHandle(settings, DELAYS, FLIGHTS), ReprocessRequest((DAY,), {}, explicit=True))
    given = ["--view", DELAYS.name, "--version", "1", "--days", f"{DAY}", "--run", run]
    with process(settings, "rebuild", clock.environment, given) as made:
        eventually(lambda: made.has_engine, 60)
        clock.set(shift)
        assert made.popen.wait(180) == 0, made.said[-2_000:]
    return {**plan.to_json(), "run": run}


def test_days_are_rebuilt_and_published_and_the_last_one_holds(
    spark: SparkSession, settings: Settings, diagnosis: Callable[..., Report], tmp_path: Path
) -> None:
    ref = VersionRef(settings, DELAYS.name, 1)
    clock, landing = Clock(tmp_path), history(spark, settings)
    for number, (run, days) in enumerate((("ahead", 1), ("back", -1), ("right", 0))):
        plan = rebuilt(settings, clock, run, f"{days:+}d")
        assert publish(settings, plan, clock.environment)["published"] == [f"{DAY}"]
        shown = publications(ref.batch_table)[DAY]
        certificate = newest_certificates(ref)[DAY]
        assert (shown.run, certificate.run, certificate.equal) == (run, run, True)
        off = certificate.created - datetime.now(UTC)
        assert abs(off - timedelta(days=days)) < timedelta(minutes=5), "the clock was not set"
        found = [finding.code for finding in diagnosis(settings).findings]
        assert found == (["DATED_AHEAD"] if run == "ahead" else [])
        landing.land([departed(20.1 + number / 10)])  # on time or late: the next run has something to do
        catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))


def test_a_replay_goes_on_when_its_clock_is_set_and_the_newest_is_the_last(
    spark: SparkSession, settings: Settings, diagnosis: Callable[..., Report], tmp_path: Path
) -> None:
    clock = Clock(tmp_path)
    history(spark, settings)
    for run, begin, then in (("ahead", "+0", "+1d"), ("back", "+1d", "+0")):
        clock.set(begin)
        with process(settings, "replay", clock.environment, replay(run)) as made:
            in_the_middle(settings, run, made)
            clock.set(then)
            assert made.popen.wait(180) == 0, made.said[-2_000:]
        after = standing(settings, run)
        assert after is not None
        assert (after.phase, after.equal) == (PUBLISHED, after.partitions), after.said
    clock.set("+0")
    with process(settings, "replay", clock.environment, replay("last")) as made:
        assert made.popen.wait(180) == 0, made.said[-2_000:]
    assert [each.run for each in list_states(VersionRef(settings, DELAYS.name, 1))] == ["ahead", "back", "last"]
    assert not diagnosis(settings).findings
