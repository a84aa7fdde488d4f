"""A topic with a field of every kind, and what landing decides about records of it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from anabranch.contracts import Contract, Topic
from anabranch.ingest.landing.decode import decode, raw_frame
from anabranch.ingest.landing.quarantine_reasons import with_reasons

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MADE = Contract(
    "thing.made",
    1,
    {
        "type": "object",
        "required": ["origin", "n"],
        "properties": {
            "origin": {"type": "string", "pattern": "^[A-Z]{3}$"},
            "n": {"type": "integer", "minimum": 0, "maximum": 2**62},
            "x": {"type": "number"},
            "at": {"type": "string", "format": "date-time"},
            "on": {"type": "string", "format": "date"},
            "ok": {"type": "boolean"},
            "size": {"type": "string", "enum": ["S", "L"]},
            "text": {"type": "string"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "counts": {"type": "array", "items": {"type": "integer"}},
            "stamps": {"type": "array", "items": {"type": "string", "format": "date-time"}},
            "lines": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
            "where": {
                "type": "object",
                "required": ["city"],
                "properties": {"city": {"type": "string"}, "since": {"type": "string", "format": "date"}},
            },
        },
    },
)
PRICED = Contract("thing.priced", 1, {"type": "object", "properties": {"price": {"type": "integer"}}})
TOPIC = Topic("things", (MADE, PRICED), future_bound=timedelta(hours=1), earliest_year=2000)
APPENDED = datetime(2020, 1, 1, 12, tzinfo=UTC)
BASE: dict[str, Any] = {
    "specversion": "1.0",
    "id": "i-1",
    "source": "/s",
    "type": "thing.made",
    "subject": "thing-1",
    "time": "2020-01-01T12:00:00Z",
    "dataschema": MADE.uri,
    "data": {"origin": "JFK", "n": 1},
}


def decided(spark: SparkSession, values: Mapping[str, bytes | None], topic: Topic = TOPIC) -> dict[str, dict[str, Any]]:
    """The rows of landing, by the names of the records."""
    appended = int(APPENDED.timestamp() * 1_000_000)
    records = [
        {"partition": 0, "offset": n, "append_time": appended, "key": b"k", "value": value}
        for n, value in enumerate(values.values())
    ]
    names = list(values)
    rows = with_reasons(decode(raw_frame(spark, topic, records), topic).toArrow(), topic).to_pylist()
    assert sorted(row["offset"] for row in rows) == list(range(len(records)))
    return {names[row["offset"]]: row for row in rows}
