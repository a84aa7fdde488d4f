"""Departures by both versions of their contract, landed by the real decoding; the view over the newest one, and what it
says in plain Python."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from anabranch.contracts import Event, Topic, load_declarations
from anabranch.contracts.model.declarations import Declarations
from anabranch.core.settings import Settings
from anabranch.ingest.landing.decoding import decode, raw_frame
from anabranch.ingest.landing.epochs import SUMMARY_COLUMNS, arrow_with_epoch, summary
from anabranch.ingest.landing.state import open_landing, read_state, writer_of
from anabranch.ingest.landing.table.schema import EVENT_DATE, epoch_build
from anabranch.ingest.landing.table.schema_growth import versions_note
from anabranch.lake import CommitMetadata, open_table
from anabranch.lake.commits import append
from anabranch.lake.cut import Cut, Position
from anabranch.lake.files import stage_arrow
from anabranch.lake.layout import VersionRef
from anabranch.views import View, view

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TYPE = "flight.departed"
DECLARED = load_declarations(Path(__file__).parents[1] / "spark" / "evolution" / "contracts")
TWO = DECLARED.topic("flights")
ONE = replace(TWO, contracts=TWO.contracts[:1], upcasters=())
"""As it was before the second version."""


@view(name="delays_to", version=1, events=TYPE, key=["destination", "hour"], partition_by="hour")
def delays_to(departed: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    hours = departed.groupBy(F.window("event_time", "1 hour"), "destination").agg(
        F.count("*").alias("flights"),
        F.sum("minutes_early").alias("early"),
        F.sum("minutes_late").alias("late"),
    )
    return hours.select("destination", F.col("window.start").alias("hour"), "flights", "early", "late")


@view(name="departures_from", version=1, events=TYPE, key=["origin", "hour"], partition_by="hour")
def departures_from(departed: DataFrame) -> DataFrame:
    """Of fields that both versions have."""
    from pyspark.sql import functions as F

    hours = departed.groupBy(F.window("event_time", "1 hour"), "origin").agg(F.count("*").alias("flights"))
    return hours.select("origin", F.col("window.start").alias("hour"), "flights")


def declared(topic: Topic) -> Declarations:
    return Declarations({topic.name: topic})


@dataclass(frozen=True, slots=True)
class Departure:
    """One event, by the version of the contract that ``version`` names. ``delay``: None only by the second one."""

    at: str
    delay: int | None
    dest: str = "ATL"
    version: int = 1
    origin: str = "JFK"

    @property
    def time(self) -> datetime:
        return datetime.fromisoformat(f"2013-01-{self.at}").replace(tzinfo=UTC)

    def event(self, **more: Any) -> Event:
        data: dict[str, Any] = {
            "flight_date": str(self.time.date()),
            "carrier": "AA",
            "flight": 1,
            "origin": self.origin,
            "scheduled_departure": f"{self.time:%Y-%m-%dT%H:%M:%SZ}",
            "actual_departure": f"{self.time:%Y-%m-%dT%H:%M:%SZ}",
        }
        if self.version == 1:
            data |= {"dest": self.dest, "dep_delay": self.delay}
        else:
            data |= {"destination": self.dest}
            if self.delay is not None:
                data |= {"minutes_early": max(0, -self.delay), "minutes_late": max(0, self.delay)}
        uri = f"urn:anabranch:contract:{TYPE}:{self.version}"
        return Event(uuid4().hex, "test", TYPE, "s", self.time, {**data, **more}, uri)


DAYS = [date(2013, 1, 1), date(2013, 1, 2)]
MIXED: list[list[Departure]] = [
    [Departure("01 05:10", 12), Departure("01 05:20", -3, version=2), Departure("01 05:30", -7, "ORD")],
    [Departure("01 06:10", 0), Departure("01 05:40", 100, version=2), Departure("01 06:20", None, version=2)],
    [Departure("02 06:10", 5, "ORD"), Departure("02 06:40", 0, "ORD", 2), Departure("02 06:50", -9)],
]


def land(spark: SparkSession, settings: Settings, topic: Topic, *epochs: Sequence[Departure | Event]) -> Cut:
    """Each list becomes the next epoch, through landing's own decoding and its table; returns the cut of them all."""
    table = open_landing(settings, topic)
    uri = table.table_uri.removeprefix("file://")
    for epoch in epochs:
        before = read_state(table, topic)
        begin = before.offsets.get(0, 0)
        events = [each.event() if isinstance(each, Departure) else each for each in epoch]
        rows = decode(raw_frame(spark, topic, list(_records(events, begin))), topic).toArrow()
        found = arrow_with_epoch(rows, before, topic)
        cut = Cut({topic.name: Position(before.epoch + 1, {0: begin + len(events)})})
        extra = {**summary(found.select(SUMMARY_COLUMNS), before), **versions_note(topic)}
        staged = stage_arrow(found, uri, epoch_build(before.epoch + 1), EVENT_DATE)
        append(table, staged, CommitMetadata(writer_of(topic), uuid4().hex, cut, extra=extra))
    state = read_state(table, topic)
    return Cut({topic.name: Position(state.epoch, state.offsets)})


def _records(events: Iterable[Event], begin: int) -> Iterable[dict[str, Any]]:
    for offset, event in enumerate(events, begin):
        micros = (event.time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        yield {"partition": 0, "offset": offset, "append_time": micros, "key": b"k", "value": event.to_json()}


def expected(departures: Iterable[Departure]) -> list[dict[str, Any]]:
    """``delays_to`` in plain Python, of what was sent."""
    found: dict[tuple[str, datetime], dict[str, Any]] = {}
    for each in departures:
        hour = each.time.replace(minute=0, second=0)
        row = found.setdefault((each.dest, hour), {"flights": 0, "early": None, "late": None})
        row["flights"] += 1
        if each.delay is not None:
            row["early"] = (row["early"] or 0) + max(0, -each.delay)
            row["late"] = (row["late"] or 0) + max(0, each.delay)
    return [{"destination": d, "hour": h, **row} for (d, h), row in sorted(found.items())]


def speed_rows(settings: Settings, view: View) -> list[dict[str, Any]]:
    """The columns that its function made, in the order of the key."""
    table = open_table(VersionRef(settings, view.name, 1).speed_table)
    assert table is not None
    rows = table.to_pyarrow_table().drop_columns(["partition_date", "_epoch"]).to_pylist()
    return sorted(rows, key=lambda row: [str(row[k]) for k in view.key])
