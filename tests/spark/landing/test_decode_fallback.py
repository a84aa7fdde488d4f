"""Landing Avro: what the engine's decoder refuses is landed all the same, if it is what the format says."""

from __future__ import annotations

import secrets
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from anabranch.contracts import Avro, Contract, Record, Topic
from anabranch.core.settings import Settings
from anabranch.ingest.landing.decoding import decode_fast, raw_frame
from anabranch.ingest.landing.state import open_landing
from support.avro_records import avro, in_wire_format, text
from support.landed_bytes import landing_of
from support.naive_reader import Record as Sent
from support.things_topic import decided

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
ID, BEYOND = {"name": "id", "type": "string"}, 2**40
SCHEMA = {"type": "record", "name": "Thing", "fields": [ID, {"name": "n", "type": "int"}]}
WIDER = {"type": "record", "name": "Thing", "fields": [ID, {"name": "n", "type": "long"}]}
COUNTED = Contract(
    "thing.counted", 1, {"type": "object", "properties": {"id": {"type": "string"}, "n": {"type": "integer"}}}
)
TOPIC = Topic("things", (COUNTED,), partitions=1, records=Avro(id="id", time=Record.APPEND_TIME, schema=text(SCHEMA)))
BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
APPENDED = int(BEGIN.timestamp()) * 1_000_000


def sound(name: str, n: int = 1) -> bytes:
    return avro({"id": name, "n": n}, SCHEMA)


def doubtful(name: str) -> bytes:
    """An ``int`` of more than 32 bits, which the engine's decoder refuses and others read."""
    return avro({"id": name, "n": BEYOND}, WIDER)


CUT = sound("c")[:-1]
RECORDS: dict[str, tuple[list[bytes], list[tuple[str, str | None, int | None]]]] = {
    "among others": (
        [sound("a"), doubtful("b"), CUT, sound("d"), doubtful("e"), doubtful("b"), sound("e")],
        [
            ("valid", "a", 1), ("valid", "b", BEYOND), ("quarantined", None, None), ("valid", "d", 1),
            ("valid", "e", BEYOND), ("duplicate", "b", None), ("duplicate", "e", None),
        ],
    ),
    "all of them": ([doubtful("a"), doubtful("b")], [("valid", "a", BEYOND), ("valid", "b", BEYOND)]),
    "none": ([sound("a"), CUT], [("valid", "a", 1), ("quarantined", None, None)]),
}  # fmt: skip


@pytest.mark.parametrize("small", [50_000, 0], ids=["in this process", "by the engine"])
@pytest.mark.parametrize("name", RECORDS)
def test_refused_records_are_landed_by_the_other_decoder(
    spark: SparkSession, settings: Settings, name: str, small: int
) -> None:
    settings = settings.model_copy(update={"small_commit_rows": small})
    values, right = RECORDS[name]
    records = [Sent(TOPIC.name, 0, offset, BEGIN, value) for offset, value in enumerate(values)]
    with landing_of(spark, settings, TOPIC, records) as landed:
        landed.land(records)
    rows = sorted(open_landing(settings, TOPIC).to_pyarrow_table().to_pylist(), key=lambda row: row["offset"])
    found = [(row["decision"], row["event_id"], (row[COUNTED.column] or {"n": None})["n"]) for row in rows]
    assert found == right
    assert [row["value"] for row in rows] == values
    assert {row["epoch"] for row in rows} == {1}
    assert [row["reason"] for row in rows if row["decision"] == "quarantined"] == [
        "not_avro: it ends in the middle of a value, at byte 2 (by the schema of the topic)" for _ in {CUT} & {*values}
    ]


NUMBERS = {
    "type": "record",
    "name": "Thing",
    "fields": [
        ID,
        {"name": "n", "type": "int"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "total", "type": {"type": "fixed", "name": "f", "size": 9, "logicalType": "decimal", "precision": 12}},
        {"name": "size", "type": {"type": "enum", "name": "e", "symbols": ["S", "L"]}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "counts", "type": {"type": "array", "items": "int"}},
    ],
}
NUMBERED = Contract("thing.counted", 1, {"type": "object", "properties": {
    "id": {"type": "string"},
    "n": {"type": "integer"},
    "price": {"type": "number", "format": "decimal", "precision": 9, "scale": 2},
    "total": {"type": "number", "format": "decimal", "precision": 12, "scale": 0},
    "size": {"type": "string"},
    "day": {"type": "string", "format": "date"},
    "counts": {"type": "array", "items": {"type": "integer"}},
}})  # fmt: skip
SOUND = {
    "n": b"\x04",
    "price": b"\x04\x07\xcf",
    "total": bytes(8) + b"\x05",
    "size": b"\x02",
    "day": b"\x02",
    "counts": b"\x02\x06\x00",
}
WRAPPED = {
    "an int": {"n": bytes.fromhex("feffffff1f")},
    "a decimal": {"price": b"\x12" + (2**64 + 1999).to_bytes(9, "big")},
    "a fixed decimal": {"total": (2**64 + 5).to_bytes(9, "big")},
    "an enum": {"size": bytes.fromhex("8080808010")},
    "an enum from its end": {"size": b"\x01"},
    "a date": {"day": bytes.fromhex("8280808010")},
    "an int of several": {"counts": b"\x02" + bytes.fromhex("feffffff1f") + b"\x00"},
}


def test_numbers_of_more_bits_than_their_type_has_are_never_cut_off(spark: SparkSession) -> None:
    """The engine's decoder would keep the low bits: 19.99 for nine bytes of a decimal, 2147483647 for an int."""
    topic = Topic("things", (NUMBERED,), records=Avro(id="id", time=Record.APPEND_TIME, schema=text(NUMBERS)))
    values = {name: b"\x02a" + b"".join({**SOUND, **cut}.values()) for name, cut in {"sound": {}, **WRAPPED}.items()}
    rows = [
        {"partition": 0, "offset": n, "append_time": APPENDED, "key": None, "value": value}
        for n, value in enumerate(values.values())
    ]
    frame = decode_fast(raw_frame(spark, topic, rows), topic)
    assert frame is not None
    first = dict(zip(values, sorted(frame.collect(), key=lambda row: row.offset), strict=True))
    assert {name for name, row in first.items() if row.decision == "valid"} == {"sound"}
    assert first["sound"].thing_counted.asDict() == {
        "id": "a", "n": 2, "price": Decimal("19.99"), "total": 5, "size": "L", "day": date(1970, 1, 2), "counts": [3],
    }  # fmt: skip
    by_json, by_both = (decided(spark, values, topic, fast=fast) for fast in (False, True))
    compared = ("decision", "reason", "thing_counted")
    assert [[by_both[name][each] for each in compared] for name in values] == [
        [by_json[name][each] for each in compared] for name in values
    ]


def test_the_first_decoder_asks_for_no_memory_that_a_record_names(spark: SparkSession) -> None:
    """A text of 2 GB, in 6 bytes: the engine would ask for the memory before it looks for the bytes."""
    hostile = bytes.fromhex("feffffff0f") + b"a"
    rows: list[dict[str, Any]] = [
        {"partition": 0, "offset": n, "append_time": APPENDED, "key": None, "value": hostile} for n in range(50)
    ]
    frame = decode_fast(raw_frame(spark, TOPIC, rows), TOPIC)
    assert frame is not None
    limit = spark._jvm.System.getProperty("org.apache.avro.limits.string.maxLength")  # type: ignore[union-attr]
    assert int(limit) <= 64 << 20
    assert {row.decision for row in frame.collect()} == {"quarantined"}


def test_bytes_behind_a_value_are_never_taken_for_the_end_mark(spark: SparkSession) -> None:
    """The mark of one plan, learned from it, doesn't get a record with bytes behind its value through the next one."""
    marks = []
    original = secrets.token_bytes

    def kept(size: int) -> bytes:
        marks.append(original(size))
        return marks[-1]

    rows: list[dict[str, Any]] = [
        {"partition": 0, "offset": 0, "append_time": APPENDED, "key": None, "value": sound("a")}
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(secrets, "token_bytes", kept)
        assert decode_fast(raw_frame(spark, TOPIC, rows), TOPIC) is not None
    rows[0]["value"] = sound("a") + marks[0] + b"more"
    frame = decode_fast(raw_frame(spark, TOPIC, rows), TOPIC)
    assert frame is not None
    assert [row.decision for row in frame.collect()] == ["quarantined"]


def test_records_that_need_it_have_the_other_decoder_only(spark: SparkSession) -> None:
    def fast(kind: Any, **node: Any) -> bool:
        schema = {"type": "record", "name": "Thing", "fields": [ID, {"name": "n", "type": kind}]}
        properties = {"id": {"type": "string"}, **({"n": node} if node else {})}
        contract = Contract("thing.counted", 1, {"type": "object", "properties": properties})
        records = Avro(id="id", time=Record.APPEND_TIME, schema=text(schema))
        return (
            decode_fast(raw_frame(spark, topic := Topic("things", (contract,), records=records), []), topic) is not None
        )

    assert fast("long", type="integer")
    assert fast({"type": "long", "logicalType": "timestamp-millis"}, type="string", format="date-time")
    assert not fast(["int", "string"]), "a union of several types"
    assert not fast({"type": "map", "values": "long"})
    assert not fast({"type": "int", "logicalType": "time-millis"}), "the engine has another type for it"
    assert not fast("long", type="number"), "written as 5, which a double is 5.0 of"
    assert not fast(
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 4},
        type="number",
        format="decimal",
        precision=9,
        scale=2,
    )


def test_schemas_of_a_registry_are_all_read_by_the_first_decoder_or_none(spark: SparkSession) -> None:
    from anabranch.contracts.fields.registered_schema import RegisteredSchema

    def topic(*schemas: Any) -> Topic:
        known = {7 + n: RegisteredSchema("avro", text(schema)) for n, schema in enumerate(schemas)}
        return Topic("things", (COUNTED,), records=Avro(id="id", time=Record.APPEND_TIME, schemas=known))

    mapped = {**SCHEMA, "fields": [*SCHEMA["fields"], {"name": "m", "type": {"type": "map", "values": "int"}}]}
    rows = [
        {"partition": 0, "offset": n, "append_time": APPENDED, "key": None, "value": value}
        for n, value in enumerate(
            [
                in_wire_format(7, sound("a")),
                in_wire_format(8, doubtful("b")),
                in_wire_format(9, sound("c")),
                b"\x00",
                None,
            ]
        )
    ]
    both = decode_fast(raw_frame(spark, topic(SCHEMA, WIDER), rows), topic(SCHEMA, WIDER))
    assert both is not None
    assert [(row.decision, row.event_id) for row in both.orderBy("offset").collect()] == [
        ("valid", "a"), ("valid", "b"), *[("quarantined", None)] * 3,
    ]  # fmt: skip
    assert decode_fast(raw_frame(spark, topic(), rows), topic()) is None, "none is known yet"
    assert decode_fast(raw_frame(spark, topic(SCHEMA, mapped), rows), topic(SCHEMA, mapped)) is None
    many = topic(*[SCHEMA] * 9)
    assert decode_fast(raw_frame(spark, many, rows), many) is None, "the plan would grow and grow"
