"""A job writes down how far it is: its step, the days that are written, Spark's tasks."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from anabranch.certify.reconciliation import reconcile
from anabranch.change import run_progress
from anabranch.change.run_progress import REBUILD, RECONCILE, RunProgress, read_progress
from anabranch.compute.batch.rebuild import rebuild
from anabranch.core.settings import Settings
from anabranch.lake.layout import VersionRef
from anabranch.operate.jobs import _watch
from anabranch.operate.jobs._watch import watched
from anabranch.views.model.handle import ViewHandle
from support import departure_halves
from support.departure_halves import DAYS, DELAYS, EPOCHS, TOPIC
from support.processes import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_rebuild_and_its_certificates_are_seen_while_they_run(
    spark: SparkSession, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    departure_halves.stream(spark, settings, DELAYS, departure_halves.land(settings, EPOCHS))
    seen, write = list[RunProgress](), run_progress.write_progress

    def noting(settings: Settings, progress: RunProgress) -> None:
        write(settings, progress)
        found = read_progress(VersionRef(settings, progress.view, progress.version), progress.run)
        assert found == progress
        seen.append(progress)

    monkeypatch.setattr(_watch, "write_progress", noting)
    monkeypatch.setattr(_watch, "_EVERY_SECONDS", 0.02)
    begun = RunProgress(DELAYS.name, DELAYS.version, "run-1", REBUILD, len(DAYS), 6, time.time(), estimated=60.0)
    with watched(spark, settings, begun, DAYS) as watch:
        build = rebuild(spark, ViewHandle(settings, DELAYS, TOPIC), DAYS, "run-1")

        def all_are_seen() -> bool:  # Spark tells of the end of a task a little later
            watch.write()
            return (seen[-1].step, seen[-1].written) == (REBUILD, len(DAYS))

        eventually(all_are_seen, 10)
        watch.step(RECONCILE)
        assert reconcile(spark, ViewHandle(settings, DELAYS, TOPIC), "run-1", build).equal == tuple(DAYS)
    assert seen[0].written == 0
    for step in (REBUILD, RECONCILE):
        of_step = [each for each in seen if each.step == step]
        assert len(of_step) > 3
        assert any(each.all_tasks > 0 for each in of_step), f"no Spark task of {step} was seen"
        assert all(each.tasks <= each.all_tasks for each in of_step)
    assert all(each.left is not None for each in seen)
    assert read_progress(VersionRef(settings, DELAYS.name, DELAYS.version), "run-1") is None, "it has ended"


def test_a_build_that_cant_be_watched_is_still_made(
    spark: SparkSession, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    departure_halves.land(settings, EPOCHS)

    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(_watch, "write_progress", full)
    begun = RunProgress(DELAYS.name, DELAYS.version, "run-2", REBUILD, len(DAYS), 6, time.time())
    with watched(spark, settings, begun, DAYS):
        assert rebuild(spark, ViewHandle(settings, DELAYS, TOPIC), DAYS, "run-2").rows == 4
