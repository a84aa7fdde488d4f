"""A processor as a stream: what is closed, in order, once; bounded, and with errors that name the event."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from anabranch.certify.certify_partitions import certify
from anabranch.certify.comparison_inputs import SpeedState
from anabranch.certify.differences import differences
from anabranch.compute.speed.view_stream import SpeedQuery, catch_up
from anabranch.core.errors import BrokenState
from anabranch.core.settings import Settings
from anabranch.ingest.landing.table.schema import VALID
from anabranch.lake import Commit, commit_history, open_table
from anabranch.lake.layout import VersionRef
from anabranch.views import View
from anabranch.views.model.handle import ViewHandle
from anabranch.views.processor import Row, Timers, process, processed
from pyspark.cloudpickle import register_pickle_by_value
from support.landed_sample import FLIGHTS, Event, Landing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
# Python workers of Spark can't import a test. The function has no types.
register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
DAY = datetime(2013, 1, 1, tzinfo=UTC)
LATENESS = FLIGHTS.allowed_lateness
RETURNS = "tailnum string, began timestamp, rested_at timestamp, flights int"


class Rested:
    """The flights of an aircraft until it has rested for half an hour."""

    rest = timedelta(minutes=30)

    def __init__(self) -> None:
        self.began: datetime | None = None
        self.flights = 0
        self.due: datetime | None = None

    def on_event(self, event: Row, timers: Timers) -> Iterator[Row]:
        if event["dest"] == "XXX":
            raise KeyError(event["dest"])
        if self.due:
            timers.clear(self.due)
        self.tailnum = event["tailnum"]
        self.began = self.began or event["event_time"]
        self.flights += 1
        self.due = event["event_time"] + self.rest
        timers.set(self.due)
        return iter(())

    def on_timer(self, at: datetime, timers: Timers) -> Iterator[Row]:
        yield {"tailnum": self.tailnum, "began": self.began, "rested_at": at, "flights": self.flights}
        self.began, self.flights, self.due = None, 0, None


class Hoards(Rested):
    """As many bytes as an event says, for ever."""

    def on_event(self, event: Row, timers: Timers) -> Iterator[Row]:
        self.hoard = bytes(event["dep_delay"])
        return super().on_event(event, timers)


class Sleeps(Rested):
    """It sets a timer by which it is forgotten."""

    rest = timedelta(hours=2)


def view_of(processor: type[Rested]) -> View:
    def rested(departed: DataFrame) -> DataFrame:
        return process(departed, "tailnum", processor, RETURNS, forget_after="1 hour")

    return View(
        "rested", 1, ("flight.departed",), ("tailnum", "began"), rested, "began",
        lookahead=timedelta(days=1), closes=True, fingerprint=processor.__name__,
    )  # fmt: skip


VIEW = view_of(Rested)


def departed(minute: float, tailnum: str = "N1", dest: str = "ATL", delay: int = 0) -> Event:
    data = {"origin": "JFK", "dest": dest, "carrier": "AA", "flight": 1, "dep_delay": delay, "tailnum": tailnum}
    return Event("flight.departed", DAY + timedelta(minutes=minute), f"{minute}{tailnum}{dest}{delay}", data)


def rows_of(settings: Settings, version: int | None = None) -> list[dict[str, Any]]:
    table = open_table(VersionRef(settings, VIEW.name, 1).speed_table)
    assert table is not None
    if version is not None:
        table.load_as_version(version)
    rows = table.to_pyarrow_table(columns=["tailnum", "began", "rested_at", "flights"]).to_pylist()
    return sorted(rows, key=lambda row: (row["tailnum"], row["began"]))


def commits(settings: Settings) -> list[Commit]:
    return list(commit_history(VersionRef(settings, VIEW.name, 1).speed_table))


def expected(landing: Landing, minutes: float) -> list[dict[str, Any]]:
    """The same processor over each aircraft's events before the watermark, which is ``minutes`` into the day."""
    until, rows = DAY + timedelta(minutes=minutes), list[dict[str, Any]]()
    on_time = [row for row in landing.rows if row["decision"] == VALID and not row["late"]]
    for tailnum in sorted({row["flight_departed"]["tailnum"] for row in on_time}):
        mine = [
            {
                "event_time": row["event_time"],
                "log_partition": row["partition"],
                "log_offset": row["offset"],
                "watermark": until,
                **row["flight_departed"],
            }
            for row in on_time
            if row["flight_departed"]["tailnum"] == tailnum and row["event_time"] < until
        ]
        rows += [dict(row) for row in processed(mine, Rested, "1 hour")]
    return rows


def state_rows(query: SpeedQuery) -> int:
    progress = query.lastProgress
    assert progress is not None
    return sum(operator.numRowsTotal for operator in progress.stateOperators)


MORNING = [departed(m, t) for m, t in ((0, "N1"), (40, "N1"), (5, "N2"), (10, "N1"), (41, "N2"), (130, "N3"))]
HOURS = LATENESS / timedelta(minutes=1)


def test_rows_come_when_their_time_has_passed_however_the_log_is_sliced(
    spark: SparkSession, settings: Settings, tmp_path_factory: pytest.TempPathFactory
) -> None:
    view = ViewHandle(settings, VIEW, FLIGHTS)
    after = [departed(HOURS + 100, "N4"), departed(100, "N1"), departed(HOURS + 100.5, "N1")]
    sliced = Landing(settings)
    for part in (MORNING[:4], MORNING[4:], after[:1], after[1:]):
        sliced.land(*([event] for event in part))
        catch_up(spark, view)
    elsewhere = settings.model_copy(update={"home": tmp_path_factory.mktemp("whole")})
    whole = Landing(elsewhere)
    whole.land(*([event] for event in [*MORNING, *after]))
    catch_up(spark, ViewHandle(elsewhere, VIEW, FLIGHTS))

    assert rows_of(settings) == expected(sliced, 100.5) == rows_of(elsewhere)
    assert [(row["tailnum"], row["flights"]) for row in rows_of(settings)] == [("N1", 3), ("N2", 1), ("N2", 1)]
    (certificate,) = certify(spark, view, [DAY.date()])
    assert (certificate.equal, certificate.speed.rows) == (True, 3)


def test_an_event_at_the_watermark_itself_is_on_time_and_waits(spark: SparkSession, settings: Settings) -> None:
    view = ViewHandle(settings, VIEW, FLIGHTS)
    landing = Landing(settings)
    landing.land([departed(HOURS + 60, "N9")])
    catch_up(spark, view)
    landing.land([departed(60, "N1")])
    assert not landing.rows[-1]["late"]
    catch_up(spark, view)
    landing.land([departed(HOURS + 95, "N9")])
    catch_up(spark, view)

    assert [(row["tailnum"], row["flights"]) for row in rows_of(settings)] == [("N1", 1)]


def test_what_other_events_of_the_topic_say_moves_its_time(spark: SparkSession, settings: Settings) -> None:
    landing = Landing(settings)
    arrived = replace(departed(HOURS + 60), type="flight.arrived", data={**departed(0).data, "arr_delay": 0})
    landing.land([departed(0)], [arrived])
    catch_up(spark, ViewHandle(settings, VIEW, FLIGHTS))

    assert landing.rows[-1]["decision"] == VALID
    assert [row["flights"] for row in rows_of(settings)] == [1]


def test_each_commit_is_certified_at_the_watermark_that_it_names(spark: SparkSession, settings: Settings) -> None:
    view = ViewHandle(settings, VIEW, FLIGHTS)
    landing = Landing(settings)
    landing.land([departed(0), departed(HOURS + 60)])
    catch_up(spark, view)
    closing, opening = commits(settings)[:2]
    assert (closing.note.cut, len(rows_of(settings, opening.version)), len(rows_of(settings))) == (landing.cut, 0, 1)
    assert opening.note.cut == landing.cut

    uri = VersionRef(settings, VIEW.name, 1).speed_table
    for committed in (opening, closing):
        seen = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=committed.note.extra["watermark_ms"] or 0)
        state = SpeedState(uri, committed.version, committed.note.cut, seen)
        assert differences(spark, view, DAY.date(), state=state) == []
    wrong = SpeedState(uri, closing.version, closing.note.cut, DAY)
    assert len(differences(spark, view, DAY.date(), state=wrong)) == 1


def test_a_key_is_forgotten(spark: SparkSession, settings: Settings) -> None:
    landing = Landing(settings)
    landing.land([departed(n / 10, f"N{n}") for n in range(50)])
    query = catch_up(spark, ViewHandle(settings, VIEW, FLIGHTS))
    full = state_rows(query)
    landing.land([departed(HOURS + 70, "last")], [departed(HOURS + 70, "really")])
    query = catch_up(spark, ViewHandle(settings, VIEW, FLIGHTS))

    assert full >= 50
    assert state_rows(query) <= full / 10
    assert len(rows_of(settings)) == 50


@pytest.mark.parametrize(
    ("processor", "event", "said"),
    [
        (Rested, departed(0, dest="XXX"), "Rested.on_event (partition 0, offset 0, of 2013-01-01 00:00:00+00:00)"),
        (Hoards, departed(0, delay=17 * 1024 * 1024), "the state of key Row(tailnum='N1') has 17,8"),
        (Sleeps, departed(0), "a timer at 2013-01-01 02:00:00+00:00 would never fire"),
    ],
)  # fmt: skip
def test_what_fails_names_its_event_and_stops_the_stream(
    spark: SparkSession, settings: Settings, processor: type[Rested], event: Event, said: str
) -> None:
    Landing(settings).land([event], [departed(HOURS + 1, "N2")])
    with pytest.raises(BrokenState) as caught:
        catch_up(spark, ViewHandle(settings, view_of(processor), FLIGHTS))
    assert caught.value.code == "BATCH_FAILED"
    assert said in str(caught.value)
    assert rows_of(settings) == []
