"""Random contracts with maps and arrays, at any depth, which may hold null, and random records, sound and damaged:
landing decides as a naive reader does, and so does the check before sending."""

from __future__ import annotations

import base64
import json
import math
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from anabranch.contracts import Avro, Contract, PlainJson, Protobuf, Record, Topic
from anabranch.contracts.fields.registered_schema import RegisteredSchema
from anabranch.contracts.sending import RecordCheck
from google.protobuf import descriptor_pb2
from support import naive_formats
from support.avro_records import avro
from support.damaged_bytes import accident, fuzzed
from support.map_records import SHELF_SCHEMA, protobuf_shelf
from support.naive_maps import data_of, or_null
from support.text_formats import TIMES, UUIDS
from support.things_topic import APPENDED, as_dicts, decided

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.property, pytest.mark.spark]
RECORDS = 150
MONEY = {"format": "decimal", "precision": 5, "scale": 2}
SCALARS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "integer": ({"type": "integer"}, ["0", "-1", "9223372036854775807"]),
    "number": ({"type": "number"}, ["0.5", "-3", "1e300", "12345678901234567890"]),
    "boolean": ({"type": "boolean"}, ["true", "false"]),
    "string": ({"type": "string"}, ['"a"', '""', '"12"', '"true"', '"{"', '"\\u0041\\n"', '"\\ud83d\\udeeb"']),
    "date": ({"type": "string", "format": "date"}, ['"2020-02-29"', '"1969-12-31"']),
    "time": ({"type": "string", "format": "date-time"}, ['"2020-01-01T00:00:00Z"', '"2020-01-01T00:00:00.5+02:00"']),
    "uuid": ({"type": "string", "format": "uuid"}, [f'"{text}"' for text in UUIDS]),
    "clock": ({"type": "string", "format": "time"}, [f'"{text}"' for text in TIMES]),
    "bytes": ({"type": "string", "contentEncoding": "base64"}, ['""', '"AAE="', '"12=="', '"true"', '"//79"']),
    "money": ({"type": "string", **MONEY}, ['"1.5"', '"-999.99"', '"0"']),
    "cents": ({"type": "number", **MONEY}, ["1.5", "-999.99", "7", "0.10"]),
}
WRONG = [
    "null", "null", "12", "1.5", "1.555", "-0.0", "9223372036854775808", "true", '"x"', '"7"', '"2020-02-30"', "[]",
    "{}", "[1]", "1234", '"AB"', '"10:15"', '"550e8400e29b41d4a716446655440000"', '{"a":1}', '{"a":1,"a":2}', '""',
    '"NaN"', "1e2",
]  # fmt: skip
KEYS = ["a", "b", "north", "", "a.b", "it's", '\\"', "A", "\\ud800", "é"]


def a_node(chance: Random, depth: int) -> dict[str, Any]:
    kinds = ["scalar"] * 3 + (["map", "array", "object"] if depth else [])
    match chance.choice(kinds):
        case "map":
            return {"type": "object", "additionalProperties": _inside(chance, a_node(chance, depth - 1))}
        case "array":
            return {"type": "array", "items": _inside(chance, a_node(chance, depth - 1))}
        case "object":
            fields = {name: a_node(chance, depth - 1) for name in ("x", "y")[: chance.randint(1, 2)]}
            return {"type": "object", "properties": {n: _sent(chance, node) for n, node in fields.items()}}
        case _:
            return dict(SCALARS[chance.choice(list(SCALARS))][0])


def _inside(chance: Random, node: dict[str, Any]) -> dict[str, Any]:
    """Items of an array, or values of a map: half of them may be null."""
    return {**node, "type": chance.choice([[node["type"], "null"], ["null", node["type"]], node["type"], node["type"]])}


def _sent(chance: Random, node: dict[str, Any]) -> dict[str, Any]:
    return {**node, "sent_as": f"n-{chance.randrange(10**9)}"} if chance.random() < 0.3 else node


def a_schema(chance: Random) -> dict[str, Any]:
    """Maps, also in objects and arrays outside of maps, and an array of scalars."""
    a_map = [{"type": "object", "additionalProperties": _inside(chance, a_node(chance, n))} for n in (0, 1, 2, 3)]
    fields = {
        "flat": a_map[0],
        "two": a_map[1],
        "deep": a_map[3],
        "where": {"type": "object", "properties": {"labels": a_map[2]}},
        "lines": {"type": "array", "items": {"type": "object", "properties": {"tags": a_map[1]}}},
        "maps": {"type": "array", "items": _inside(chance, a_map[0])},
        "items": {"type": "array", "items": _inside(chance, a_node(chance, 0))},
    }
    return {"type": "object", "properties": fields}


def a_text(chance: Random, node: Mapping[str, Any], damage: float) -> str:
    """JSON of a value; with probability ``damage`` at each place it is another value."""
    if chance.random() < damage:
        return chance.choice(WRONG)
    if (firm := or_null(node)) is not None:
        return "null" if chance.random() < 0.3 else a_text(chance, firm, damage)
    if "additionalProperties" in node:
        names = chance.sample(KEYS, chance.randrange(4))
        if names and chance.random() < damage:
            names.append(chance.choice([names[0], "\\u0061", "\\ud801"]))
        inner = (f'"{name}": {a_text(chance, node["additionalProperties"], damage)}' for name in names)
        return "{" + ",".join(inner) + "}"
    if node["type"] == "object":
        fields = [(child.get("sent_as", name), child) for name, child in node["properties"].items()]
        inner = (f'"{name}":{a_text(chance, child, damage)}' for name, child in fields if chance.random() < 0.8)
        return "{" + ",".join([*inner, '"other":{"a":1,"a":[]}'][: 3 if chance.random() < 0.2 else 2]) + "}"
    if node["type"] == "array":
        return "[" + ",".join(a_text(chance, node["items"], damage) for _ in range(chance.randrange(3))) + "]"
    own = {key: value for key, value in node.items() if key != "sent_as"}
    return chance.choice(next(texts for known, texts in SCALARS.values() if known == own))


@pytest.mark.parametrize("seed", range(6))
def test_landing_decides_as_a_naive_reader(spark: SparkSession, seed: int) -> None:
    chance = Random(f"maps/{seed}")
    schema = a_schema(chance)
    contract = Contract("thing.made", 1, schema)
    topic = Topic("things", (contract,), records=PlainJson(id=Record.OFFSET, time=Record.APPEND_TIME))
    values = {str(n): a_text(chance, schema, chance.choice([0, 0.01, 0.03, 0.1])).encode() for n in range(RECORDS)}
    rows, check, wrong = decided(spark, values, topic), RecordCheck(topic), list[str]()
    for name, value in values.items():
        row, right = rows[name], data_of(value, schema)
        landed = as_dicts(row["thing_made"], contract.schema) if row["decision"] == "valid" else None
        if landed != right or (row["reason"] or "").startswith("unreadable"):
            wrong.append(f"{value.decode()}\n  landed:   {landed} ({row['reason']})\n  expected: {right}")
        content = json.loads(value)
        sent = isinstance(content, dict) and check.problem(value, content) is None
        if sent and right is None:
            wrong.append(f"{value.decode()}\n  may be sent, and is quarantined: {row['reason']}")
    assert not wrong, f"{len(wrong)} of {schema}:\n" + "\n".join(wrong[:5])
    counts = Counter(row["decision"] for row in rows.values())
    assert min(counts["valid"], counts["quarantined"]) > 20, counts
    landed_nulls = sum(_nulls_inside(as_dicts(row["thing_made"], contract.schema), schema) for row in rows.values())
    assert landed_nulls > 5


def _nulls_inside(value: Any, node: Mapping[str, Any]) -> int:
    """How many items and values are null."""
    if value is None:
        return 0
    if "properties" in node:
        return sum(_nulls_inside(value[name], child) for name, child in node["properties"].items())
    inner = node.get("additionalProperties", node.get("items"))
    if inner is None:
        return 0
    held = list(value.values() if isinstance(value, dict) else value)
    return held.count(None) + sum(_nulls_inside(each, or_null(inner) or inner) for each in held)


FLAT: dict[str, Any] = {"type": "object", "additionalProperties": {"type": "string"}}
SHELF = Contract(
    "shelf.counted",
    1,
    {
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "labels": FLAT,
            "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
            "shares": {"type": "object", "additionalProperties": {"type": "number"}},
        },
    },
)
BOXES = {"type": "object", "properties": {"size_x": {"type": "integer"}, "tags": FLAT}}
AVRO_ONLY: dict[str, Any] = {
    "prices": {"type": "number", "format": "decimal", "precision": 5, "scale": 2},
    "seen": {"type": "string", "format": "date-time"},
    "boxes": BOXES,
}
WIDE = Contract(
    "shelf.counted",
    1,
    {
        "type": "object",
        "properties": {
            **SHELF.fields,
            **{name: {"type": "object", "additionalProperties": node} for name, node in AVRO_ONLY.items()},
        },
    },
)
GAPPED = Contract(
    "shelf.counted",
    1,
    {
        "type": "object",
        "properties": {
            **WIDE.fields,
            "counts": {"type": "object", "additionalProperties": {"type": ["integer", "null"]}},
        },
    },
)
MESSAGE: dict[int, tuple[str, Any]] = {
    1: ("id", str), 2: ("labels", (str, str)), 3: ("counts", ("int32", int)), 4: ("flags", (bool, bool)),
    5: ("shares", (str, float)),
}  # fmt: skip
KIND = protobuf_shelf(messages=False)


def some(chance: Random, values: list[Any]) -> dict[str, Any]:
    return {key: chance.choice(values) for key in chance.sample(["a", "north", "", "é", "12"], chance.randrange(4))}


def an_avro_shelf(chance: Random) -> bytes:
    shelf = {
        "id": chance.choice(["s", "ö"]),
        "labels": some(chance, ["12", "", "true"]),
        "counts": some(chance, [0, -(2**63), 7, 7, 7, None] if chance.random() < 0.3 else [1, 2**63 - 1]),
        "prices": some(chance, [Decimal("1.50"), Decimal("-999.99"), Decimal("0.00")]),
        "seen": some(chance, [APPENDED, datetime(1969, 12, 31, tzinfo=UTC)]),
        "shares": some(chance, [0.5, -1e300] if chance.random() < 0.8 else [float("nan"), 1.0]),
        "boxes": some(chance, [{"size_x": 1, "tags": some(chance, ["x"])}]),
    }
    return avro(shelf, SHELF_SCHEMA)


def a_message(chance: Random) -> bytes:
    found = KIND(id="s", labels=some(chance, ["12", ""]), shares=some(chance, [0.5, 0.0]))
    for key in chance.sample([0, -1, 2**31 - 1], chance.randrange(3)):
        found.counts[key] = chance.choice([0, -(2**63), 2**63 - 1])
    found.flags[chance.random() < 0.5] = True
    again = KIND(labels=some(chance, ["again"]))
    return bytes(found.SerializeToString() + again.SerializeToString())


def _protobuf_schema() -> RegisteredSchema:
    file = descriptor_pb2.FileDescriptorProto()
    KIND.DESCRIPTOR.file.CopyToProto(file)
    return RegisteredSchema("protobuf", base64.b64encode(file.SerializeToString()).decode())


BY_LOG: dict[str, Any] = {"id": Record.OFFSET, "time": Record.APPEND_TIME}
HEAD = b"\x00\x00\x00\x00\x09"
FORMATS: dict[str, tuple[Contract, Any, Any, Any]] = {
    "Avro": (
        WIDE,
        Avro(**BY_LOG, schemas={9: RegisteredSchema("avro", json.dumps(SHELF_SCHEMA))}),
        lambda chance: HEAD + an_avro_shelf(chance),
        lambda value: naive_formats.avro(value, SHELF_SCHEMA),
    ),
    "Avro, whose counts may be null": (
        GAPPED,
        Avro(**BY_LOG, schemas={9: RegisteredSchema("avro", json.dumps(SHELF_SCHEMA))}),
        lambda chance: HEAD + an_avro_shelf(chance),
        lambda value: naive_formats.avro(value, SHELF_SCHEMA),
    ),
    "Protobuf": (
        SHELF,
        Protobuf(**BY_LOG, schemas={9: _protobuf_schema()}),
        lambda chance: HEAD + b"\x00" + a_message(chance),
        lambda value: naive_formats.protobuf(value[1:], MESSAGE) if value[:1] == b"\x00" else None,
    ),
}


def expected(found: Mapping[str, Any] | None, contract: Contract) -> dict[str, Any] | None:
    """The data of a valid record, None for one in quarantine."""
    if found is None or not all(math.isfinite(each) for each in found["shares"].values()):
        return None
    if (None in found["counts"].values() and contract is not GAPPED) or any(
        abs(each) >= 1000 for each in found.get("prices", {}).values()
    ):
        return None
    return {name: found[name] for name in contract.fields}


@pytest.mark.parametrize("name", FORMATS)
def test_maps_of_a_format_are_read_as_its_specification_says(spark: SparkSession, name: str) -> None:
    contract, records, draw, read = FORMATS[name]
    chance, topic = Random(f"{name}/maps"), Topic("shelves", (contract,), records=records)
    sound = [draw(chance) for _ in range(400)]
    values = {
        str(n): value if chance.random() < 0.6 else HEAD + fuzzed(value[5:], [accident(chance)])
        for n, value in enumerate(sound)
    }
    rows, wrong = decided(spark, values, topic), list[str]()
    for number, value in values.items():
        row, right = rows[number], expected(read(value[5:]), contract)
        landed = as_dicts(row["shelf_counted"], contract.schema) if row["decision"] == "valid" else None
        if landed != right or (row["reason"] or "").startswith("unreadable"):
            wrong.append(f"{value!r}\n  landed:   {landed} ({row['reason']})\n  expected: {right}")
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong[:5])
    counts = Counter(row["decision"] for row in rows.values())
    assert min(counts["valid"], counts["quarantined"]) > 40, counts
