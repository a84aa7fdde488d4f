"""Two writers of one table: the one that started last goes on, the other ends and says why."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from anabranch.compute.speed.service import Slot, Speed
from anabranch.compute.speed.view_stream import SpeedQuery, acquire_fence, catch_up, start
from anabranch.contracts.model.topics import Sources
from anabranch.core.errors import Conflict
from anabranch.core.settings import Settings
from anabranch.lake import latest_commit
from anabranch.lake.layout import VersionRef
from anabranch.lake.streams.writer_fencing import acquire
from anabranch.operate.doctor._run_checks import Report
from anabranch.views import View
from anabranch.views.model.handle import ViewHandle
from support.landed_sample import FLIGHTS, Event, Landing, sample_views
from support.processes import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELAYS = sample_views().get("departure_delays")


def departed(at: str) -> Event:
    time = datetime.fromisoformat(f"2013-01-01 {at}").replace(tzinfo=UTC)
    data = {"origin": "JFK", "dest": "ATL", "carrier": "AA", "flight": 1, "dep_delay": 20, "tailnum": "N1"}
    return Event("flight.departed", time, at, data)


@pytest.mark.unit
def test_whoever_took_it_last_has_it(tmp_path: Path) -> None:
    first, other = acquire(tmp_path, "landing/flights"), acquire(tmp_path, "landing/weather")
    first.check()
    second = acquire(tmp_path, "landing/flights")
    with pytest.raises(Conflict) as caught:
        first.check()
    assert caught.value.code == "FENCED"
    assert "has taken over at 20" in caught.value.what
    second.check()
    other.check()
    second.path.write_text("")  # torn by a power cut: nobody is known to have it
    first.check()


@pytest.mark.spark
def test_a_stream_whose_successor_has_begun_writes_no_more(
    spark: SparkSession, settings: Settings, diagnosis: Callable[..., Report]
) -> None:
    """Both over one checkpoint, as it is when a process that was taken for dead comes back."""
    ref = VersionRef(settings, DELAYS.name, DELAYS.version)
    landing = Landing(settings)
    landing.land([departed("05:10")])
    turn = acquire_fence(ref)
    tries: list[float] = []

    def launch(view: View, topics: Sources) -> SpeedQuery:
        tries.append(0)
        return start(spark, ViewHandle(settings, view, topics), fence=turn)

    zombie = Speed([Slot(DELAYS, FLIGHTS)], launch, 10**9)
    uri = VersionRef(settings, DELAYS.name, 1).speed_table
    zombie.poll()
    try:
        eventually(lambda: (found := latest_commit(uri)) and found.note.cut == landing.cut)
        acquire_fence(ref)  # what its successor does first
        landing.land([departed("05:20")])
        for _ in range(300):
            zombie.poll()
            if zombie.fenced:
                break
            time.sleep(0.1)
        assert zombie.fenced, zombie.slots[0]
        found = latest_commit(uri)
        assert found is not None
        assert found.note.cut.epoch("flights") == 1
        assert "has taken over" in zombie.slots[0].status().error
    finally:
        zombie.stop()
    catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    found = latest_commit(uri)
    assert found is not None
    assert found.note.cut == landing.cut
    assert not diagnosis(settings).findings
