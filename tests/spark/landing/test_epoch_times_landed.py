"""Event times since 1970 in landing: exact to the microsecond, in each type that a contract may declare for them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from anabranch.contracts import Avro, Contract, PlainJson, Record, TimeField, Topic
from anabranch.core.engine.spark import LIVE
from anabranch.ingest.landing.decoding import decode_fast, raw_frame
from support.avro_records import avro, text
from support.epoch_times import NO_TEXTS, NUMBERS, time_in
from support.things_topic import APPENDED, decided

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
FUTURE = timedelta(days=3650)
NUMBER: dict[str, Any] = {"type": "number"}
TYPES: dict[str, dict[str, Any]] = {
    "number": NUMBER,
    "string": {"type": "string"},
    "decimal number": {"type": "number", "format": "decimal", "precision": 34, "scale": 15},
    "decimal string": {"type": "string", "format": "decimal", "precision": 34, "scale": 15},
}


def topic_of(node: Mapping[str, Any], unit: str) -> Topic:
    at = {**node, "sent_as": "at sent"}
    fields = {"id": {"type": "string"}, "when": {"type": "object", "properties": {"at": at}}}
    contract = Contract("thing.made", 1, {"type": "object", "properties": fields})
    records = PlainJson(id="id", time=TimeField("when.at", unit=unit))
    return Topic("things", (contract,), records=records, earliest_year=1900, future_bound=FUTURE)


def record(name: str, value: str) -> bytes:
    return f'{{"id":{json.dumps(name)},"when":{{"at sent":{value}}},"at sent":7}}'.encode()


def expected(right: datetime | None) -> datetime | None:
    return right if right is not None and right <= APPENDED + FUTURE else None


def many(unit: str) -> list[str]:
    """Numbers of the nine years around the turn of a microsecond, with up to 15 digits behind the point."""
    chance, digits = Random(unit), {"s": 10, "ms": 13, "us": 16, "ns": 19}[unit]
    found = []
    for _ in range(150):
        whole = str(chance.randrange(14 * 10**8, 17 * 10**8))
        fraction = "".join(chance.choice(["0", "9", "4", "5", str(chance.randrange(10))]) for _ in range(15))
        written = (whole + fraction)[:digits], (whole + fraction)[digits : digits + chance.randrange(16)]
        found.append(".".join(part for part in written if part))
    return found


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize(("unit", "settings"), [("s", {}), ("ms", LIVE), ("us", {}), ("ns", LIVE)])
def test_a_time_is_what_was_written_to_the_microsecond(
    spark: SparkSession, settings: Mapping[str, str], unit: str, kind: str
) -> None:
    own = spark.newSession()
    for key, value in {"spark.sql.codegen.wholeStage": "false", **settings}.items():
        own.conf.set(key, value)
    node, quoted = TYPES[kind], "string" in kind
    numbers = [*NUMBERS[unit], *many(unit)]
    values = {each: record(each, json.dumps(each) if quoted else each) for each in numbers}
    rows = decided(own, values, topic_of(node, unit))
    wrong = {}
    for each in numbers:
        right = expected(time_in(each, unit))
        if kind != "number" and ("e" in each.lower() or (kind != "string" and len(each.partition(".")[2]) > 15)):
            right = None
        row = rows[each]
        if row["event_time"] != right or (row["reason"] is None) != (right is not None):
            wrong[each] = row["event_time"], right, row["reason"]
        elif right is None and not row["reason"].startswith(("absurd_time", "mapping: time", "contract: data.when.at")):
            wrong[each] = row["reason"]
    assert wrong == {}
    assert sum(row["reason"] is None for row in rows.values()) > 100


@pytest.mark.parametrize("unit", NUMBERS)
def test_a_text_that_is_no_digits_is_quarantined(spark: SparkSession, unit: str) -> None:
    values = {each: record(f"i{n}", json.dumps(each)) for n, each in enumerate(NO_TEXTS)}
    rows = decided(spark, values, topic_of(TYPES["string"], unit))
    said = f"mapping: time: data.when.at sent is missing or can't be read as {unit} since 1970"
    assert {row["reason"] for row in rows.values()} == {said}
    odd = {"a number": "1709251200", "null": "null", "true": "true", "digits without end": '"' + "9" * 100_000 + '"'}
    rows = decided(spark, {name: record(name, each) for name, each in odd.items()}, topic_of(TYPES["string"], unit))
    assert {name: row["reason"] for name, row in rows.items()} == {
        "a number": "contract: data.when.at sent is no string",
        "null": said,
        "true": "contract: data.when.at sent is no string",
        "digits without end": said,
    }


def test_numbers_that_no_timestamp_holds_are_quarantined(spark: SparkSession) -> None:
    numbers = ["1e300", "1e999", "-1e300", "9" * 38, "9" * 60, "1e-300", '"7"', "null", "[]"]
    rows = decided(spark, {each: record(each, each) for each in numbers}, topic_of(NUMBER, "s"))
    assert {name for name, row in rows.items() if row["reason"] is None} == {"1e-300"}
    assert not any(row["reason"].startswith("unreadable") for row in rows.values() if row["reason"])
    twice = b'{"id":"i","when":{"at sent":1709251200.25},"when":{"at sent":1709251201.25}}'
    row = decided(spark, {"twice": twice}, topic_of(NUMBER, "s"))["twice"]
    assert row["event_time"] == time_in("1709251201.25", "s")


def test_whole_numbers_are_read_as_before(spark: SparkSession) -> None:
    for unit, numbers in NUMBERS.items():
        whole = [each for each in numbers if each.removeprefix("-").isdigit()]
        rows = decided(spark, {each: record(each, each) for each in whole}, topic_of({"type": "integer"}, unit))
        assert {each: rows[each]["event_time"] for each in whole} == {
            each: expected(time_in(each, unit)) for each in whole
        }


@pytest.mark.parametrize("fast", [False, True], ids=["as JSON", "in columns"])
@pytest.mark.parametrize("kind", ["string", "decimal"])
def test_avro_has_them_too(spark: SparkSession, kind: str, fast: bool) -> None:
    """In columns, too, where the columns have the digits. A double of Avro is read from its JSON text."""
    exact = {"type": "bytes", "logicalType": "decimal", "precision": 34, "scale": 15}
    schema = {
        "type": "record",
        "name": "T",
        "fields": [{"name": "at", "type": "string" if kind == "string" else exact}],
    }
    node = TYPES["string" if kind == "string" else "decimal number"]
    contract = Contract("thing.made", 1, {"type": "object", "properties": {"at": node}})
    records = Avro(id=Record.OFFSET, time=TimeField("at", unit="s"), schema=text(schema))
    topic = Topic("things", (contract,), records=records, earliest_year=1900, future_bound=FUTURE)
    numbers = [each for each in (*NUMBERS["s"], *many("s")) if "e" not in each.lower() and len(each) < 25]
    values = {each: avro({"at": each if kind == "string" else Decimal(each)}, schema) for each in numbers}
    rows = decided(spark, values, topic, fast=fast)
    assert {each: rows[each]["event_time"] for each in numbers} == {
        each: expected(time_in(each, "s")) for each in numbers
    }


def test_a_double_of_avro_is_its_shortest_text(spark: SparkSession) -> None:
    schema = {"type": "record", "name": "T", "fields": [{"name": "at", "type": "double"}]}
    contract = Contract("thing.made", 1, {"type": "object", "properties": {"at": NUMBER}})
    records = Avro(id=Record.OFFSET, time=TimeField("at", unit="s"), schema=text(schema))
    topic = Topic("things", (contract,), records=records, future_bound=FUTURE)
    frame = raw_frame(spark, topic, [{"partition": 0, "offset": 0, "append_time": 0, "key": None, "value": b""}])
    assert decode_fast(frame, topic) is None
    numbers = [float(each) for each in many("s")]
    rows = decided(spark, {repr(each): avro({"at": each}, schema) for each in numbers}, topic)
    assert {name: row["event_time"] for name, row in rows.items()} == {
        repr(each): time_in(repr(each), "s") for each in numbers
    }
