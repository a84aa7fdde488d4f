"""A whole migration with real streams and a reader every 20 ms: build, steps, halt, resume, rollback, retirement."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING, Any

import anabranch
import pyarrow.compute as pc
import pytest
from anabranch.certify.reconciliation import reconcile
from anabranch.change.migrate.migration import advance, halt, resume, rollback, start
from anabranch.change.migrate.migration_record import Migration
from anabranch.change.migrate.promotion_checks import Expectations
from anabranch.compute.batch.publish import publish
from anabranch.compute.batch.rebuild import rebuild
from anabranch.compute.speed import view_stream
from anabranch.core.errors import TryAgain
from anabranch.core.settings import Settings
from anabranch.lake.layout import VersionRef
from anabranch.serve.reader_log import failed_reads
from anabranch.serve.retirement import retire
from anabranch.serve.routes import route_of
from anabranch.views.model.handle import ViewHandle
from support.landed_sample import FLIGHTS, Event, Landing, sample_views
from support.processes import working

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
OLD = sample_views().get("departure_delays")
NEW = replace(OLD, version=2, fingerprint="the same, better")
DAY = date(2013, 1, 1)
PROMISE = Expectations(behind=100)


def departed(number: int) -> Event:
    data = {"origin": "JFK", "dest": "ATL", "carrier": "AA", "flight": number, "dep_delay": 0, "tailnum": "N1"}
    return Event("flight.departed", datetime(2013, 1, 1, 5, tzinfo=UTC) + timedelta(seconds=number), f"e{number}", data)


@dataclass
class Reader:
    """Each epoch is one flight, so a reading at epoch ``e`` counts ``e`` of them, in whatever halves of whichever
    version."""

    settings: Settings
    name: str
    epoch: int = 0
    reads: list[int] = field(default_factory=list)
    behind: int = 0
    wrong: list[str] = field(default_factory=list)

    def poll(self, stop: threading.Event) -> None:
        while not stop.wait(0.02):
            try:
                self._read()
            except Exception as error:
                self.wrong.append(f"failed: {error}")

    def _read(self) -> None:
        reading = anabranch.read(OLD.name, settings=self.settings, reader=self.name)
        rows, epoch = reading.to_arrow(), reading.cut.epoch(FLIGHTS.name)
        flights = pc.sum(rows["flights"]).as_py()
        if flights != epoch:
            self.wrong.append(f"v{reading.version} at epoch {epoch}: {flights} flights, {dict(reading.halves)}")
        if reading.behind is not None:
            self.behind += 1
        elif epoch < self.epoch:
            self.wrong.append(f"v{reading.version} went back from {self.epoch} to {epoch}, and didn't say so")
        self.epoch = max(self.epoch, epoch)
        self.reads.append(reading.version)


def stepped(settings: Settings, until: Callable[[Migration], bool]) -> Migration:
    end = time.monotonic() + 120
    while True:
        made = _advanced(settings)
        if isinstance(made, Migration):
            assert made.state in ("moving", "done"), route_of(settings, OLD.name)
            if until(made):
                return made
        else:
            assert made in ("READERS_FOLLOW", "SOAKING")
            time.sleep(0.1)
        assert time.monotonic() < end


def _advanced(settings: Settings) -> Migration | str:
    try:
        return advance(settings, OLD, NEW, by="test")
    except TryAgain as wait:
        return wait.code


RUNS = [pytest.param(n, marks=pytest.mark.sweep if n else ()) for n in range(10)]


@pytest.mark.parametrize("run", RUNS)
def test_no_read_fails_is_torn_mixed_or_older(spark: SparkSession, settings: Settings, run: int) -> None:
    ref = VersionRef(settings, OLD.name, 1)
    landing, numbers = Landing(settings), count()
    landing.land(*([departed(next(numbers))] for _ in range(5)))
    queries: list[Any] = [view_stream.start(spark, ViewHandle(settings, view, FLIGHTS)) for view in (OLD, NEW)]
    given: dict[str, Any] = {"by": "anna", "why": "a test", "soak_seconds": 0.5, "promise": PROMISE}

    def land(stop: threading.Event) -> None:
        while not stop.wait(0.2):
            landing.land([departed(next(numbers))])

    try:
        for query in queries:
            while not query.sink.cut.covers(landing.cut):
                assert query.isActive, query.failure
                time.sleep(0.05)
        reader = Reader(settings, "r")
        with working(land, reader.poll):
            for view in (OLD, NEW):  # what readers have of the old version is built of the new one
                build = rebuild(spark, ViewHandle(settings, view, FLIGHTS), [DAY], f"run-v{view.version}")
                assert reconcile(spark, ViewHandle(settings, view, FLIGHTS), build.run, build).equal == (DAY,)
                publish(ViewHandle(settings, view, FLIGHTS), build, [DAY])
            start(settings, OLD, NEW, steps=(50, 100), **given)
            reader.name = next(n for k in count() if _gets(settings, n := f"r{k}", 50) == 2)
            stepped(settings, lambda made: made.share == 50)
            halt(settings, OLD.name, by="bob", why="a look")
            time.sleep(0.5)
            resume(settings, OLD.name, by="bob", why="it was nothing")
            stepped(settings, lambda made: made.share == 100)
            rollback(settings, OLD.name, by="bob", why="a rehearsal")
            _until(lambda: reader.reads[-1] == 1, 20)
            start(settings, OLD, NEW, steps=(50, 100), **given)
            stepped(settings, lambda made: made.state == "done")
            _until(lambda: reader.reads[-1] == 2, 20)
            retire(ref, by="anna", why="all on v2", grace=timedelta(0))
            time.sleep(0.5)
    finally:
        for query in queries:
            query.stop()
    assert reader.wrong == []
    assert set(reader.reads) == {1, 2}
    assert len(reader.reads) > 100
    assert failed_reads(ref) == failed_reads(VersionRef(settings, OLD.name, 2)) == []


def _gets(settings: Settings, name: str, share: int) -> int:
    route = route_of(settings, OLD.name)
    assert route is not None
    return replace(route, shares={1: 100 - share, 2: share}).version_for(name)


def _until(true: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it didn't come in time"
        time.sleep(0.02)
