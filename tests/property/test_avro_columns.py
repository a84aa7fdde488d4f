"""Avro by the engine's decoder is what it is by way of JSON: for random schemas, values and damages."""

from __future__ import annotations

import io
import json
import math
import string
from collections import Counter
from collections.abc import Iterator, Mapping
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING, Any
from uuid import UUID

import fastavro
import pytest
from anabranch.contracts import Avro, Contract, Record, Topic
from anabranch.contracts.fields.registered_schema import RegisteredSchema
from anabranch.contracts.formats import shape_of
from anabranch.ingest.landing.decoding import decode_fast, raw_frame
from support.damaged_bytes import accident, fuzzed
from support.things_topic import decided

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.property, pytest.mark.spark]
RECORDS = 300
DAY_9999 = 2_932_896
LOGICAL: dict[str, Any] = {
    "timestamp-millis": {"type": "long", "logicalType": "timestamp-millis"},
    "timestamp-micros": {"type": "long", "logicalType": "timestamp-micros"},
    "date": {"type": "int", "logicalType": "date"},
    "uuid": {"type": "string", "logicalType": "uuid"},
    "decimal": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 3},
    "fixed decimal": {"type": "fixed", "size": 9, "logicalType": "decimal", "precision": 20, "scale": 0},
    "enum": {"type": "enum", "symbols": ["A", "B", "C"]},
    "fixed": {"type": "fixed", "size": 3},
    "strings": {"type": "array", "items": "string"},
    "longs": {"type": "array", "items": "long"},
    "doubles": {"type": "array", "items": "double"},
    "strings or null": {"type": "array", "items": ["null", "string"]},
    "longs or null": {"type": "array", "items": ["long", "null"]},
    "ints or null": {"type": "array", "items": ["null", "int"]},
    "doubles or null": {"type": "array", "items": ["null", "double"]},
}
PLAIN = ("boolean", "int", "long", "float", "double", "string", "bytes")


def schema_of(chance: Random, depth: int = 0) -> dict[str, Any]:
    """A record with every kind of field, in any order; some may be null, and records lie in records."""
    kinds = [*PLAIN, *LOGICAL, *(["record"] * (2 - depth))]
    chance.shuffle(kinds)
    fields = []
    for number, kind in enumerate(kinds):
        made = schema_of(chance, depth + 1) if kind == "record" else LOGICAL.get(kind, kind)
        if isinstance(made, Mapping) and made["type"] in ("fixed", "enum"):
            made = {**made, "name": f"n{chance.getrandbits(60)}"}
        fields.append({"name": f"f{number}", "type": ["null", made] if chance.random() < 0.4 else made})
    return {"type": "record", "name": f"r{chance.getrandbits(60)}", "fields": fields}


def a_value(chance: Random, schema: Any) -> Any:
    if isinstance(schema, list):
        (one,) = [each for each in schema if each != "null"]
        return None if chance.random() < 0.3 else a_value(chance, one)
    if isinstance(schema, Mapping) and schema.get("logicalType") == "uuid":
        return str(UUID(int=chance.getrandbits(128)))
    if schema == "string":
        return "".join(chance.choices([*string.printable, "ö", "✈", "\U0001f600", "\u0000"], k=chance.randrange(9)))
    match schema:
        case "boolean":
            return chance.random() < 0.5
        case "int":
            return chance.choice([0, -1, 2**31 - 1, -(2**31), chance.randrange(9999)])
        case "long":
            return chance.choice([0, -1, 2**63 - 1, -(2**63), chance.randrange(9999)])
        case "float":
            return chance.choice([0.0, -0.0, 1.5, 3.4e38, math.nan] if chance.random() < 0.05 else [0.1])
        case "double":
            return chance.choice([0.1, 1e-320, 1.7e308, -0.0, 5.0, chance.random()])
        case "bytes":
            return chance.randbytes(chance.randrange(5))
    match schema["type"], schema.get("logicalType"):
        case "record", _:
            return {field["name"]: a_value(chance, field["type"]) for field in schema["fields"]}
        case "array", _:
            return [a_value(chance, schema["items"]) for _ in range(chance.randrange(4))]
        case "enum", _:
            return chance.choice(schema["symbols"])
        case "bytes" | "fixed", "decimal":
            most = 10 ** schema["precision"] - 1
            return Decimal(chance.choice([0, 1, -1, most, -most, chance.randrange(most)])).scaleb(-schema["scale"])
        case "fixed", _:
            return chance.randbytes(schema["size"])
        case "int", _:
            return chance.choice([0, -1, chance.randrange(-700_000, DAY_9999)])
    micros = chance.choice([0, -1, 1_600_000_000_123_456, chance.randrange(-(10**15), 10**15)])
    return micros if schema["logicalType"] == "timestamp-micros" else micros // 1000


def encoded(schema: Any, value: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, schema, value)
    return stream.getvalue()


def differences(found: Any, right: Any, path: str = "") -> Iterator[str]:
    if isinstance(found, Mapping) and isinstance(right, Mapping):
        for name in right:
            yield from differences(found[name], right[name], f"{path}.{name}")
    elif repr(found) != repr(right):  # tells -0.0 from 0.0
        yield f"{path}: {found!r}, by way of JSON {right!r}"


@pytest.mark.parametrize("seed", range(4))
def test_both_decoders_say_the_same(spark: SparkSession, seed: int) -> None:
    chance = Random(seed)
    schema = schema_of(chance)
    writer = fastavro.parse_schema(schema)
    sound = [encoded(writer, a_value(chance, schema)) for _ in range(RECORDS)]
    values = [
        value
        if chance.random() < 0.5
        else chance.choice([fuzzed(value, [accident(chance)]), value + b"\x00", value[:-1], value + sound[0]])
        for value in sound
    ]
    node = shape_of(RegisteredSchema("avro", json.dumps(schema))).node
    topic = Topic(
        "drawn",
        (Contract("thing.drawn", 1, node),),
        records=Avro(id=Record.OFFSET, time=Record.APPEND_TIME, schema=json.dumps(schema)),
    )
    by_name = {str(number): value for number, value in enumerate(values)}
    right = decided(spark, by_name, topic)
    found = decided(spark, by_name, topic, fast=True)
    differing = [each for name in found for each in differences(found[name], right[name])]
    assert not differing, f"{len(differing)}; fields: {schema['fields']}\n" + "\n".join(differing[:10])
    counts = Counter(row["decision"] for row in right.values())
    assert min(counts["valid"], counts["quarantined"]) > RECORDS / 6, counts
    lists = [
        value for row in right.values() for value in (row["thing_drawn"] or {}).values() if isinstance(value, list)
    ]
    assert any(None in each and set(each) != {None} for each in lists), "null items lie next to others"

    rows = [
        {"partition": 0, "offset": n, "append_time": 1_600_000_000_000_000, "key": None, "value": value}
        for n, value in enumerate(values)
    ]
    frame = decode_fast(raw_frame(spark, topic, rows), topic)
    assert frame is not None
    alone = {str(row.offset): row.decision for row in frame.select("offset", "decision").collect()}
    refused = [
        n for n in alone if right[n]["decision"] == "valid" and alone[n] != "valid" and values[int(n)] == sound[int(n)]
    ]
    assert refused == [], "what a producer has written is read by the engine"
