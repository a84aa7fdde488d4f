"""A whole migration with real streams and readers every 20 ms: build, steps, halt, resume, rollback, retirement. In the
sweep with every step, a reader who is moved at the first, the middle and the last one, and streams that are behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
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
from anabranch.lake.cut import Cut
from anabranch.lake.layout import VersionRef
from anabranch.serve._reader_places import percent_of
from anabranch.serve.reader_log import failed_reads
from anabranch.serve.retirement import retire
from anabranch.serve.routes import route_of
from anabranch.views import View
from anabranch.views.model.handle import ViewHandle
from support.landed_sample import FLIGHTS, Event, Landing, sample_views
from support.processes import working

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
OLD = sample_views().get("departure_delays")
NEW = replace(OLD, version=2, fingerprint="the same, better")
DAY = date(2013, 1, 1)
PROMISE = Expectations(behind=1_000)
LAGS = (0.0, 0.2, 1.4, 2.5, 4.5, 20.0, 0.0, 0.2, 2.5, 4.5)
"""By run: the seconds for which the stream of the version that readers are sent to is stopped, at least."""
ENGINES: list[Callable[[anabranch.Reading], int]] = [
    lambda reading: pc.sum(reading.to_arrow()["flights"]).as_py(),
    lambda reading: int(reading.to_polars()["flights"].sum()),
    lambda reading: reading.to_pandas()["flights"].sum(),
    lambda reading: reading.to_duckdb().sum("flights").fetchall()[0][0],
]


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
    behind: list[bool] = field(default_factory=list)
    """Whether each of ``reads`` said so."""
    wrong: list[str] = field(default_factory=list)

    def poll(self, stop: threading.Event) -> None:
        while not stop.wait(0.02):
            try:
                self._read()
            except Exception as error:
                self.wrong.append(f"failed: {error}")

    def _read(self) -> None:
        reading = anabranch.read(OLD.name, settings=self.settings, reader=self.name)
        flights, epoch = ENGINES[len(self.reads) % len(ENGINES)](reading), reading.cut.epoch(FLIGHTS.name)
        if flights != epoch:
            self.wrong.append(f"v{reading.version} at epoch {epoch}: {flights} flights, {dict(reading.halves)}")
        if reading.behind is not None:
            if reading.version != OLD.version:
                self.wrong.append(f"v{reading.version} is behind, and only a rollback may be")
        elif epoch < self.epoch:
            self.wrong.append(f"v{reading.version} went back from {self.epoch} to {epoch}, and didn't say so")
        self.epoch = max(self.epoch, epoch)
        self.behind.append(reading.behind is not None)
        self.reads.append(reading.version)


@dataclass
class Streams:
    """The live stream of each version."""

    spark: SparkSession
    settings: Settings
    queries: dict[int, Any] = field(default_factory=dict)

    def start(self, *views: View) -> None:
        for view in views:
            self.queries[view.version] = view_stream.start(self.spark, ViewHandle(self.settings, view, FLIGHTS))

    def stop(self, *views: View) -> None:
        for view in views:
            if view.version in self.queries:
                self.queries.pop(view.version).stop()

    def wait_for(self, cut: Cut) -> None:
        for query in self.queries.values():
            while not query.sink.cut.covers(cut):
                assert query.isActive, query.failure
                time.sleep(0.05)


def stepped(settings: Settings, until: Callable[[Migration], bool]) -> Migration:
    end = time.monotonic() + 240
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


BACK_WITHIN = 5.0
"""Seconds, whatever the lag: what the docs promise of a rollback."""
RUNS = [pytest.param(n, marks=pytest.mark.sweep if n else ()) for n in range(10)]


@pytest.mark.parametrize("run", RUNS)
def test_no_read_fails_is_torn_mixed_or_older(spark: SparkSession, settings: Settings, run: int) -> None:
    ref, lag = VersionRef(settings, OLD.name, 1), LAGS[run]
    steps, moved_at = ((1, 5, 25, 50, 100), (1, 50, 100)) if run else ((50, 100), (50,))
    landing, numbers, streams = Landing(settings), count(), Streams(spark, settings)
    landing.land(*([departed(next(numbers))] for _ in range(5)))
    streams.start(OLD, NEW)
    given: dict[str, Any] = {"by": "anna", "why": "a test", "soak_seconds": 0.5, "promise": PROMISE, "steps": steps}
    readers = [Reader(settings, first_moved_at(share, steps)) for share in moved_at]

    def land(stop: threading.Event) -> None:
        while not stop.wait(0.2):
            landing.land([departed(next(numbers))])

    def all_have(version: int) -> Callable[[], bool]:
        return lambda: all(reader.reads[-1] == version for reader in readers)

    try:
        streams.wait_for(landing.cut)
        with working(land, *(reader.poll for reader in readers)):
            for view in (OLD, NEW):  # what readers have of the old version is built of the new one
                build = rebuild(spark, ViewHandle(settings, view, FLIGHTS), [DAY], f"run-v{view.version}")
                assert reconcile(spark, ViewHandle(settings, view, FLIGHTS), build.run, build).equal == (DAY,)
                publish(ViewHandle(settings, view, FLIGHTS), build, [DAY])
            start(settings, OLD, NEW, **given)
            if lag:
                stepped(settings, lambda made: made.share == 25)
                streams.wait_for(
                    landing.cut
                )  # what readers of before that step had seen: else the next one waits for it
                streams.stop(NEW)
                time.sleep(lag)
            stepped(settings, lambda made: made.share == 50)
            if lag:
                held = readers[1]
                time.sleep(0.5)
                assert held.reads[-1] == OLD.version, "it was sent to a version that is behind what it has seen"
                streams.start(NEW)
                _until(lambda: held.reads[-1] == NEW.version, 30)
            halt(settings, OLD.name, by="bob", why="a look")
            time.sleep(0.5)
            resume(settings, OLD.name, by="bob", why="it was nothing")
            stepped(settings, lambda made: made.share == 100)
            if lag:
                _until(all_have(NEW.version), 30)
                streams.stop(OLD)
                landed = landing.cut.epoch(FLIGHTS.name)
                _until(lambda: all(reader.epoch > landed for reader in readers), 60)
                time.sleep(lag)
            rollback(settings, OLD.name, by="bob", why="a rehearsal")
            _until(all_have(OLD.version), BACK_WITHIN)
            if lag:
                assert all(reader.behind[-1] for reader in readers), "the old version's stream is stopped"
                streams.start(OLD)
                _until(lambda: not any(reader.behind[-1] for reader in readers), 30)
            start(settings, OLD, NEW, **given)
            stepped(settings, lambda made: made.state == "done")
            _until(all_have(NEW.version), 20)
            retire(ref, by="anna", why="all on v2", grace=timedelta(0))
            time.sleep(0.5)
    finally:
        streams.stop(OLD, NEW)
    for reader in readers:
        assert reader.wrong == []
        assert set(reader.reads) == {1, 2}
        assert len(reader.reads) > 100
        assert any(reader.behind) or not lag
    assert failed_reads(ref) == failed_reads(VersionRef(settings, OLD.name, 2)) == []


def first_moved_at(share: int, steps: Sequence[int]) -> str:
    """A reader's name that the step to ``share``, and no step before it, sends to the new version."""
    before = max((step for step in steps if step < share), default=0)
    return next(name for n in count() if before <= percent_of(OLD.name, name := f"r{n}") < share)


def _until(true: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it didn't come in time"
        time.sleep(0.02)
