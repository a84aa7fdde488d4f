"""Landing tables of any size, written as landing would have written them: a day of departures in each epoch."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
from anabranch.contracts import Topic
from anabranch.core.settings import Settings
from anabranch.ingest.landing.state import open_landing, writer_of
from anabranch.ingest.landing.table.schema import EVENT_DATE, VALID, landing_schema
from anabranch.lake import CommitMetadata
from anabranch.lake.commits import append
from anabranch.lake.cut import Cut, Position
from anabranch.lake.files import stage_arrow

from benchmarks.world import FIRST

_DAY_US = 86_400_000_000
_LATE_DAYS = 2
"""So many days late are late events."""


def land_days(settings: Settings, topic: Topic, days: int, each: int, late: int = 0) -> None:
    """``days`` epochs of ``each`` departures on a day of their own, in one partition of the log; ``late`` more on every
    second day, which happened two days before."""
    table, schema = open_landing(settings, topic), landing_schema(topic)
    offset = 0
    for number in range(days):
        staged, newest = [], 0
        for day, count, is_late in _counts(number, each, late):
            rows = _departures(schema, topic.name, day, number + 1, offset, count, is_late=is_late)
            staged += stage_arrow(rows, table.table_uri.removeprefix("file://"), uuid4().hex, EVENT_DATE)
            offset, newest = offset + count, max(newest, _microseconds(day) + _DAY_US - 1)
        cut = Cut({topic.name: Position(number + 1, {0: offset})})
        extra: dict[str, Any] = {"watermark_us": newest, "rows": each, "counts": {}}
        append(table, staged, CommitMetadata(writer_of(topic), f"day:{number}", cut, extra=extra))


def _counts(number: int, each: int, late: int) -> Iterator[tuple[date, int, bool]]:
    """The days of event time in one epoch, each with its number of events, and whether they are late."""
    day = FIRST + timedelta(days=number)
    yield day, each, False
    if late and number >= _LATE_DAYS and number % 2 == 0:
        yield day - timedelta(days=_LATE_DAYS), late, True


def _departures(
    schema: pa.Schema, topic: str, day: date, epoch: int, first: int, count: int, *, is_late: bool
) -> pa.Table:
    number = np.arange(count)
    times = pa.array(_microseconds(day) + number * _DAY_US // count).cast(pa.timestamp("us", "UTC"))
    data = {
        "origin": pa.array(np.array(["EWR", "JFK", "LGA"])[number % 3]),
        "dest": pa.array(np.array(["ATL", "LAX", "ORD", "MIA"])[number % 4]),
        "dep_delay": pa.array(number * 7919 % 400, pa.int64()),
    }
    kind = schema.field("flight_departed").type
    fields = [data[f.name] if f.name in data else pa.nulls(count, f.type) for f in kind]
    given = {
        "topic": pa.repeat(topic, count),
        "partition": pa.repeat(pa.scalar(0, pa.int32()), count),
        "offset": pa.array(first + number, pa.int64()),
        "append_time": times,
        "epoch": pa.repeat(pa.scalar(epoch, pa.int64()), count),
        "decision": pa.repeat(VALID, count),
        "late": pa.repeat(is_late, count),
        "event_id": pa.array(np.char.add("e", (first + number).astype(str))),
        "source": pa.repeat("benchmark", count),
        "type": pa.repeat("flight.departed", count),
        "event_time": times,
        EVENT_DATE: pa.repeat(pa.scalar(day, pa.date32()), count),
        "flight_departed": pa.StructArray.from_arrays(fields, fields=list(kind)),
    }
    return pa.table([given.get(f.name, pa.nulls(count, f.type)) for f in schema], schema=schema)


def _microseconds(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1_000_000
