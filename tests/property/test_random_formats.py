"""Random records in Avro, Protobuf and text, sound and damaged: landing decides about each as a reader does that knows
only the formats' specifications."""

from __future__ import annotations

import base64
import gc
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from anabranch.contracts import Avro, Contract, Protobuf, Raw, Record, Topic
from anabranch.contracts.fields.registered_schema import RegisteredSchema
from google.protobuf import descriptor_pb2
from support import naive_formats
from support.avro_records import ORDER_SCHEMA, avro, in_wire_format, protobuf_order, text
from support.damaged_bytes import accident, fuzzed
from support.things_topic import APPENDED, decided

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.property, pytest.mark.spark]
RECORDS = 400
SEEDS = 20
"""More of them in the sweep; one for each format in every run."""
TEN_MEGABYTES = 10 * 2**20
PLACED = Contract(
    "order.placed",
    1,
    {
        "type": "object",
        "required": ["orderId", "total", "country"],
        "properties": {
            "orderId": {"type": "string"},
            "customer": {"type": "string"},
            "total": {"type": "number", "format": "decimal", "precision": 12, "scale": 2},
            "placedAt": {"type": "string", "format": "date-time"},
            "lines": {"type": "integer"},
            "weight": {"type": "number"},
            "country": {"type": "string", "enum": ["DE", "FR"]},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
    },
)
SENT = Contract(
    "order.sent",
    1,
    {
        "type": "object",
        "required": ["order_id", "country"],
        "properties": {
            "order_id": {"type": "string"},
            "placed_at": {"type": "string", "format": "date-time"},
            "country": {"type": "string", "enum": ["DE", "FR", "US"]},
            "cents": {"type": "integer"},
            "lines": {
                "type": "array",
                "items": {
                    "type": ["object", "null"],
                    "properties": {"sku": {"type": "string"}, "cents": {"type": "integer"}},
                },
            },
        },
    },
)
FLAT = Contract(
    "order.sent",
    1,
    {**SENT.schema, "properties": {name: node for name, node in SENT.fields.items() if name != "lines"}},
)
SAID = Contract("text.said", 1, {"type": "object", "properties": {"text": {"type": "string"}}})
STORED = Contract("bytes.stored", 1, {"type": "object", "properties": {"base64": {"type": "string"}}})
NEWER = {**ORDER_SCHEMA, "fields": [*ORDER_SCHEMA["fields"], {"name": "note", "type": ["null", "string"]}]}
GAPS = {
    **ORDER_SCHEMA,
    "fields": [*ORDER_SCHEMA["fields"], {"name": "marks", "type": {"type": "array", "items": ["null", "long"]}}],
}
OTHER = {
    **ORDER_SCHEMA,
    "fields": [{**f, "type": "string"} if f["name"] == "total" else f for f in ORDER_SCHEMA["fields"]],
}
SCHEMAS: dict[int, dict[str, Any]] = {3: ORDER_SCHEMA, 70_000: NEWER, 2**31: OTHER}


def marked(items: Any) -> Contract:
    marks = {"type": "array", "items": {"type": items}}
    return Contract("order.placed", 1, {**PLACED.schema, "properties": {**PLACED.fields, "marks": marks}})


MESSAGE: dict[int, tuple[str, Any]] = {
    1: ("order_id", str),
    2: ("placed_at", "time"),
    3: ("country", ["DE", "FR", "US"]),
    4: ("cents", int),
    5: ("lines", {1: ("sku", str), 2: ("cents", int)}),
}
KIND = protobuf_order()


@dataclass(frozen=True)
class Format:
    """A topic, how a record of it is drawn, how it is read by the specification: None for one that can't be, and how
    one is made that holds a long text, and is valid. ``fast``: landing tries another decoder first."""

    topic: Topic
    draw: Callable[[Random], bytes]
    read: Callable[[bytes], Mapping[str, Any] | None]
    large: Callable[[str], bytes]
    fast: bool = False


def an_order(chance: Random) -> dict[str, Any]:
    minutes = chance.choice([0, 0, 0, 0, 0, 0, -30 * 24 * 60 * 365 * 2, 120])
    return {
        "orderId": chance.choice(["o", "ö-9", ""]) + str(chance.randrange(100)) * (chance.random() < 0.95),
        "customer": chance.choice([None, "ann", "Łódź \N{AIRPLANE}"]),
        "total": Decimal(chance.choice([0, 5, -1, 10**12 - 1, 10**12])) / 100,
        "placedAt": APPENDED + timedelta(minutes=minutes, milliseconds=chance.randrange(1000)),
        "lines": chance.choice([0, -1, 2**31 - 1]),
        "weight": chance.choice([None, 0.1, 1e300, -0.0, 5e-324, -1.5, float("nan"), float("inf")]),
        "country": chance.choice(["DE", "FR", "DE", "FR", "US"]),
        "tags": chance.choice([[], ["a"], ["", "b" * 200]]),
    }


def large_order(text: str, schema: Mapping[str, Any] = ORDER_SCHEMA) -> bytes:
    found = {"orderId": "large", "customer": text, "total": Decimal(5), "placedAt": APPENDED, "lines": 1}
    return avro({**found, "weight": 0.5, "country": "DE", "tags": ["a"], "note": text, "marks": [1]}, schema)


def a_marked_order(chance: Random) -> bytes:
    marks = [chance.choice([None, 0, 2**63 - 1, -(2**63)]) for _ in range(chance.randrange(3))]
    return avro({**an_order(chance), "marks": marks}, GAPS)


def registered(chance: Random, numbers: Sequence[int] = (3, 3, 3, 70_000, 70_000, 2**31)) -> bytes:
    number = chance.choice(numbers)
    order = an_order(chance)
    total = format(order["total"], "f") if number == 2**31 else order["total"]
    return in_wire_format(number, avro({**order, "total": total, "note": "n"}, SCHEMAS[number]))


def large_registered(text: str) -> bytes:
    return in_wire_format(70_000, large_order(text, NEWER))


def read_registered(value: bytes) -> Mapping[str, Any] | None:
    schema = SCHEMAS.get(int.from_bytes(value[1:5], "big")) if value[:1] == b"\x00" and len(value) >= 5 else None
    return None if schema is None else naive_formats.avro(value[5:], schema)


def a_message(chance: Random) -> bytes:
    found = KIND(
        order_id=chance.choice(["o-1", "", "ö"]), country=chance.randrange(3), cents=chance.choice([0, -1, 2**62])
    )
    found.placed_at.FromDatetime(APPENDED + timedelta(minutes=chance.choice([0, 0, 0, -40 * 24 * 60 * 365])))
    for number in range(chance.randrange(3)):
        found.lines.add(sku=chance.choice(["", "s"]), cents=number)
    return in_wire_format(9, b"\x02\x02" + found.SerializeToString())


def large_message(text: str) -> bytes:
    found = KIND(order_id="large", country=1, cents=1)
    found.placed_at.FromDatetime(APPENDED)
    found.lines.add(sku=text, cents=1)
    return in_wire_format(9, b"\x02\x02" + found.SerializeToString())


def read_message(value: bytes) -> Mapping[str, Any] | None:
    # Of the paths that damage can make only this one leads to the message.
    return naive_formats.protobuf(value[7:], MESSAGE) if value[:7] == b"\x00\x00\x00\x00\x09\x02\x02" else None


def a_text(chance: Random) -> bytes:
    return chance.choice(["", "a line", '{"a": 1}', 'ü\u2028\x00\x1f\\"', "\N{AIRPLANE}" * 50]).encode()


def read_text(value: bytes) -> Mapping[str, Any] | None:
    try:
        return {"text": value.decode()}
    except UnicodeDecodeError:
        return None


def _protobuf() -> Protobuf:
    file = descriptor_pb2.FileDescriptorProto()
    KIND.DESCRIPTOR.file.CopyToProto(file)
    schema = RegisteredSchema("protobuf", base64.b64encode(file.SerializeToString()).decode())
    return Protobuf(id="order_id", time="placed_at", schemas={9: schema})


AVRO_SCHEMAS = {number: RegisteredSchema("avro", text(schema)) for number, schema in SCHEMAS.items()}
FITTING = {number: AVRO_SCHEMAS[number] for number in (3, 70_000)}
BY_LOG: dict[str, Any] = {"id": Record.OFFSET, "time": Record.APPEND_TIME}
FORMATS = {
    "Avro": Format(
        Topic("orders", (PLACED,), records=Avro(id="orderId", time="placedAt", schema=text(ORDER_SCHEMA))),
        lambda chance: avro(an_order(chance)),
        lambda value: naive_formats.avro(value, ORDER_SCHEMA),
        large_order,
    ),
    "Avro in columns": Format(
        Topic("orders", (PLACED,), records=Avro(id="orderId", time="placedAt", schema=text(ORDER_SCHEMA))),
        lambda chance: avro(an_order(chance)),
        lambda value: naive_formats.avro(value, ORDER_SCHEMA),
        large_order,
        fast=True,
    ),
    **{
        f"Avro whose items may be null{', in columns' if fast else ''}": Format(
            Topic(
                "orders", (marked(["integer", "null"]),), records=Avro(id="orderId", time="placedAt", schema=text(GAPS))
            ),
            a_marked_order,
            lambda value: naive_formats.avro(value, GAPS),
            partial(large_order, schema=GAPS),
            fast=fast,
        )
        for fast in (False, True)
    },
    "Avro whose items may be null, and the contract says no": Format(
        Topic("orders", (marked("integer"),), records=Avro(id="orderId", time="placedAt", schema=text(GAPS))),
        a_marked_order,
        lambda value: naive_formats.avro(value, GAPS),
        partial(large_order, schema=GAPS),
    ),
    "Avro by a registry, in columns": Format(
        Topic("orders", (PLACED,), records=Avro(id="orderId", time="placedAt", schemas=FITTING)),
        partial(registered, numbers=list(FITTING)),
        lambda value: read_registered(value) if int.from_bytes(value[1:5], "big") in FITTING else None,
        large_registered,
        fast=True,
    ),
    "Avro by a registry": Format(
        Topic("orders", (PLACED,), records=Avro(id="orderId", time="placedAt", schemas=AVRO_SCHEMAS)),
        registered,
        read_registered,
        large_registered,
    ),
    "Protobuf by a registry": Format(
        Topic("sent", (SENT,), records=_protobuf()), a_message, read_message, large_message
    ),
    "Protobuf by a registry, in columns": Format(
        Topic("sent", (FLAT,), records=_protobuf()), a_message, read_message, large_message, fast=True
    ),
    "text": Format(Topic("lines", (SAID,), records=Raw(**BY_LOG)), a_text, read_text, str.encode),
    "bytes": Format(
        Topic("blobs", (STORED,), records=Raw(form="base64", **BY_LOG)),
        lambda chance: chance.randbytes(chance.randrange(200)),
        lambda value: {"base64": base64.b64encode(value).decode()},
        str.encode,
    ),
}


def expected(format_: Format, value: bytes) -> dict[str, Any] | None:
    """The data of a valid record, None for one in quarantine."""
    found = format_.read(value)
    (contract,) = format_.topic.contracts
    if found is None:
        return None
    data = {name: found.get(name) for name in contract.fields}
    for name, node in contract.fields.items():
        if data[name] is None:
            if name in contract.required:
                return None
        elif node.get("format") == "decimal":
            money = data[name]
            if not isinstance(money, Decimal) or abs(money) >= 10**10:
                return None
        elif ("enum" in node and data[name] not in node["enum"]) or (node["type"] == "string") != isinstance(
            data[name], str | datetime
        ):
            return None
    if contract == marked("integer") and None in list(data["marks"] or []):
        return None
    ids = [data[name] for name in ("orderId", "order_id") if name in data]
    time: datetime | None = data.get("placedAt", data.get("placed_at"))
    if "" in ids:
        return None
    if ids and (time is None or time.year < 2000 or time - APPENDED > timedelta(hours=1)):
        return None
    return data


def damaged(chance: Random, value: bytes) -> bytes:
    found = fuzzed(value, [accident(chance) for _ in range(chance.randint(1, 2))])
    return chance.choice(
        [found, found, value[:-1], value + b"\x00", b"\x01" + value[1:], b"\x00\x00\x00\x00\x63x", b""]
    )


EACH = [
    *(pytest.param(name, [1], id=name) for name in FORMATS),
    *(
        pytest.param(name, range(2, SEEDS + 2), id=f"{name}, {SEEDS} seeds", marks=pytest.mark.sweep)
        for name in FORMATS
    ),
]


@pytest.mark.parametrize(("name", "seeds"), EACH)
def test_landing_decides_as_the_specification_says(spark: SparkSession, name: str, seeds: Iterable[int]) -> None:
    for seed in seeds:
        held_to_the_specification(spark, name, seed)
        gc.collect()  # Python's proxies of the engine's objects are in cycles, and these hold records of 10 MB


def held_to_the_specification(spark: SparkSession, name: str, seed: int) -> None:
    format_, chance = FORMATS[name], Random(f"{name}/{seed}")
    sound = [format_.draw(chance) for _ in range(RECORDS)]
    values = {str(n): value if chance.random() < 0.6 else damaged(chance, value) for n, value in enumerate(sound)}
    values["large"] = format_.large("y\N{AIRPLANE}" * (TEN_MEGABYTES // 4))
    values["large, cut"] = values["large"][:-2]
    rows = decided(spark, values, format_.topic, fast=format_.fast)
    column = format_.topic.contracts[0].column
    wrong = []
    for number, value in values.items():
        row, right = rows[number], expected(format_, value)
        landed = row[column] if row["decision"] == "valid" else None
        if landed != right:
            wrong.append(f"{value!r:.900}\n  landed:   {landed!s:.900} ({row['reason']})\n  expected: {right!s:.900}")
        assert row["value"] == value
    assert not wrong, f"seed {seed}, {len(wrong)}:\n" + "\n".join(wrong[:5])
    assert rows["large"]["decision"] == "valid"
    counts = Counter(row["decision"] for row in rows.values())
    assert counts["valid"] > 40, counts
    assert counts["quarantined"] > 40 or name in ("text", "bytes"), counts
    kinds = {row["reason"].partition(":")[0] for row in rows.values() if row["reason"]}
    assert "unreadable" not in kinds, "each has a reason of its own"
