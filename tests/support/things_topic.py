"""A topic with a field of every kind, and what landing decides about records of it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from anabranch.contracts import Contract, Topic
from anabranch.ingest.landing._decode_fallback import decode_again, replace_doubtful
from anabranch.ingest.landing.decoding import decode, decode_fast, raw_frame, with_reasons

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
            "shares": {"type": "array", "items": {"type": "number"}},
            "rates": {"type": "object", "additionalProperties": {"type": "number"}},
            "at": {"type": "string", "format": "date-time"},
            "on": {"type": "string", "format": "date"},
            "ok": {"type": "boolean"},
            "size": {"type": "string", "enum": ["S", "L"]},
            "text": {"type": "string"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "counts": {"type": "array", "items": {"type": "integer"}},
            "stamps": {"type": "array", "items": {"type": "string", "format": "date-time"}},
            "lines": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "n": {"type": "integer"},
                        "x": {"type": "number"},
                        "sku": {"type": "string"},
                        "on": {"type": "string", "format": "date"},
                        "at": {"type": "string", "format": "date-time"},
                        "codes": {"type": "array", "items": {"type": "string"}},
                    },
                },
            },
            "grid": {"type": "array", "items": {"type": "array", "items": {"type": "string"}}},
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


def decided(
    spark: SparkSession,
    values: Mapping[str, bytes | None],
    topic: Topic = TOPIC,
    key: bytes | None = b"k",
    *,
    fast: bool = False,
) -> dict[str, dict[str, Any]]:
    """The rows of landing, by the names of the records. ``fast``: by the decoder that landing tries first, and the
    other one for what that refuses."""
    appended = int(APPENDED.timestamp() * 1_000_000)
    records = [
        {"partition": 0, "offset": n, "append_time": appended, "key": key, "value": value}
        for n, value in enumerate(values.values())
    ]
    names = list(values)
    frame = raw_frame(spark, topic, records)
    decoded = decode_fast(frame, topic) if fast else decode(frame, topic)
    assert decoded is not None
    table = with_reasons(decoded.toArrow(), topic)
    if fast and (again := decode_again(spark, table, topic)) is not None:
        table = replace_doubtful(table, with_reasons(again, topic))
    rows = table.to_pylist()
    assert sorted(row["offset"] for row in rows) == list(range(len(records)))
    return {names[row["offset"]]: row for row in rows}


def unexpected(rows: Mapping[str, Mapping[str, Any]], reasons: Mapping[str, str | None]) -> dict[str, Any]:
    """Rows whose reason doesn't begin as expected (None: it is valid), each with both."""
    found = {name: rows[name]["reason"] for name in reasons}
    return {
        name: (found[name], expected)
        for name, expected in reasons.items()
        if (found[name] is None) != (expected is None) or not (found[name] or "").startswith(expected or "")
    }


def check_decisions(
    spark: SparkSession,
    conf: Mapping[str, str],
    topic: Topic,
    good: Mapping[str, tuple[bytes, Mapping[str, Any]]],
    bad: Mapping[str, tuple[bytes, str]],
    absent: Mapping[str, Any],
) -> None:
    """Landing takes the ``good`` records with these fields and otherwise those of ``absent``, and puts the ``bad`` ones
    into quarantine for these reasons. All are of the topic's first contract."""
    own = spark.newSession()
    for key, value in conf.items():
        own.conf.set(key, value)
    contract, values = topic.contracts[0], {name: value for name, (value, _) in {**good, **bad}.items()}
    rows = decided(own, values, topic)
    reasons = dict.fromkeys(good) | {name: f"contract: {reason}" for name, (_, reason) in bad.items()}
    assert unexpected(rows, reasons) == {}
    landed = {name: as_dicts(rows[name][contract.column], contract.schema) for name in good}
    assert landed == {name: {**absent, **right} for name, (_, right) in good.items()}


def as_dicts(value: Any, node: Mapping[str, Any]) -> Any:
    """Arrow gives a map as a list of pairs; each key must be there once."""
    if value is None:
        return None
    if "additionalProperties" in node:
        assert len({key for key, _ in value}) == len(value)
        return {key: as_dicts(each, node["additionalProperties"]) for key, each in value}
    if node["type"] == "object":
        return {name: as_dicts(value[name], child) for name, child in node["properties"].items()}
    return [as_dicts(each, node["items"]) for each in value] if node["type"] == "array" else value
