"""Arrays and maps that may hold null, in plain JSON: null only where it was sent, what is no value is quarantined."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from anabranch.contracts import Avro, Contract, PlainJson, Record, Topic, TypeField
from anabranch.core.engine.spark import LIVE
from anabranch.ingest.landing.decoding import decode_fast, raw_frame
from support.avro_records import avro
from support.things_topic import check_decisions, decided, unexpected

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
MONEY: dict[str, Any] = {"type": "string", "format": "decimal", "precision": 6, "scale": 2}
DAY: dict[str, Any] = {"type": "string", "format": "date"}
TIME: dict[str, Any] = {"type": "string", "format": "date-time"}


def gaps(node: Mapping[str, Any]) -> dict[str, Any]:
    return {**node, "type": [node["type"], "null"]}


def an_array(items: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": gaps(items)}


def a_map(values: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": gaps(values)}


PART: dict[str, Any] = {
    "type": "object",
    "properties": {"sku": {"type": "string", "sent_as": "item-no"}, "n": {"type": "integer"}, "on": DAY},
}
FIELDS: dict[str, Any] = {
    "texts": an_array({"type": "string"}),
    "counts": an_array({"type": "integer"}),
    "shares": an_array({"type": "number"}),
    "flags": an_array({"type": "boolean"}),
    "prices": an_array(MONEY),
    "fees": an_array({**MONEY, "type": "number"}),
    "days": an_array(DAY),
    "times": an_array(TIME),
    "parts": an_array(PART),
    "grid": an_array(an_array({"type": "integer"})),
    "sizes": a_map({"type": "integer"}),
    "rates": a_map({"type": "number"}),
    "names": a_map({"type": "string"}),
    "dues": a_map(DAY),
    "costs": a_map(MONEY),
    "lists": a_map(an_array({"type": "string"})),
    "shops": a_map(PART),
    "where": {"type": "object", "properties": {"tags": an_array({"type": "string"}), "m": a_map({"type": "boolean"})}},
    "firm": {"type": "array", "items": {"type": "integer"}},
    "solid": {"type": "array", "items": {"type": "array", "items": {"type": "string"}}},
}
MADE = Contract("thing.made", 1, {"type": "object", "properties": FIELDS})
BY_LOG: dict[str, Any] = {"id": Record.OFFSET, "time": Record.APPEND_TIME}
TOPIC = Topic("things", (MADE,), records=PlainJson(**BY_LOG))


def text(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


NOTHING = {"sku": None, "n": None, "on": None}
GOOD: dict[str, tuple[bytes, dict[str, Any]]] = {
    "texts": (text(texts=["a", None, "12", "null", ""]), {"texts": ["a", None, "12", "null", ""]}),
    "nulls only": (
        text(texts=[None], counts=[None, None], shares=[None], flags=[None], prices=[None], days=[None], parts=[None]),
        {
            **{name: [None] for name in ("texts", "shares", "flags", "prices", "days", "parts")},
            "counts": [None, None],
        },
    ),
    "numbers": (
        b'{"counts":[null,-9223372036854775808],"shares":[0.5,null,-3],"flags":[true,null,false]}',
        {"counts": [None, -(2**63)], "shares": [0.5, None, -3.0], "flags": [True, None, False]},
    ),
    "decimals": (
        b'{"prices":["1234.50",null],"fees":[null,0.10,-7]}',
        {"prices": [Decimal("1234.50"), None], "fees": [None, Decimal("0.10"), Decimal("-7.00")]},
    ),
    "days and times": (
        text(days=[None, "2020-02-29"], times=["2020-01-01T12:00:00.5+01:00", None]),
        {"days": [None, date(2020, 2, 29)], "times": [datetime(2020, 1, 1, 11, 0, 0, 500_000, tzinfo=UTC), None]},
    ),
    "objects": (
        text(parts=[None, {"item-no": "7", "n": None, "on": "2020-01-01"}, {}]),
        {"parts": [None, {"sku": "7", "n": None, "on": date(2020, 1, 1)}, NOTHING]},
    ),
    "arrays": (text(grid=[None, [None, 1], []]), {"grid": [None, [None, 1], []]}),
    "maps of numbers": (
        text(sizes={"a": None, "b": 1}, rates={"a": None, "b": 0.5}),
        {"sizes": {"a": None, "b": 1}, "rates": {"a": None, "b": 0.5}},
    ),
    "maps of texts": (
        text(names={"a": None, "b": "12"}, dues={"a": None, "b": "2020-02-29"}, costs={"a": None, "b": "0.10"}),
        {
            "names": {"a": None, "b": "12"},
            "dues": {"a": None, "b": date(2020, 2, 29)},
            "costs": {"a": None, "b": Decimal("0.10")},
        },
    ),
    "maps of others": (
        text(lists={"a": None, "b": [None, "x"]}, shops={"a": None, "b": {"n": 1}}),
        {"lists": {"a": None, "b": [None, "x"]}, "shops": {"a": None, "b": {**NOTHING, "n": 1}}},
    ),
    "in an object": (
        text(where={"tags": [None, "x"], "m": {"a": None, "b": True}}),
        {"where": {"tags": [None, "x"], "m": {"a": None, "b": True}}},
    ),
}
HOLDS = "data.{0} holds what is no {1} (data.{0}[1]"
BAD: dict[str, tuple[bytes, str]] = {
    "a number among texts": (text(texts=[None, 12]), HOLDS.format("texts", "string")),
    "a boolean among texts": (text(texts=[None, True]), HOLDS.format("texts", "string")),
    "an object among texts": (text(texts=[None, {"a": None}]), HOLDS.format("texts", "string")),
    "a text among integers": (text(counts=[None, "1"]), HOLDS.format("counts", "integer")),
    "an empty text among integers": (text(counts=[None, ""]), HOLDS.format("counts", "integer")),
    "a fraction among integers": (b'{"counts":[null,5.0]}', HOLDS.format("counts", "integer")),
    "beyond 64 bits": (b'{"counts":[null,9223372036854775808]}', HOLDS.format("counts", "integer")),
    "an array among integers": (text(counts=[None, [1]]), HOLDS.format("counts", "integer")),
    "NaN as a text": (text(shares=[None, "NaN"]), HOLDS.format("shares", "number")),
    "beyond a double": (b'{"shares":[null,1e400]}', HOLDS.format("shares", "number")),
    "a number among booleans": (text(flags=[None, 0]), HOLDS.format("flags", "boolean")),
    "too many digits": (text(prices=[None, "1.005"]), "data.prices holds what is no decimal(6,2) (data.prices[1]"),
    "a number among decimal texts": (text(prices=[None, 1]), "data.prices holds what is no decimal(6,2)"),
    "an exponent": (b'{"fees":[null,1e1]}', "data.fees holds what is no decimal(6,2)"),
    "no day": (text(days=[None, "2020-02-30"]), HOLDS.format("days", "string")),
    "a number among days": (text(days=[None, 2020]), HOLDS.format("days", "string")),
    "no time": (text(times=[None, "2020-01-01"]), HOLDS.format("times", "string")),
    "a number among objects": (text(parts=[None, 12]), HOLDS.format("parts", "object")),
    "a text in an object's integer": (
        text(parts=[None, {"n": "1"}]),
        "data.parts holds what is no object (data.parts[1].n",
    ),
    "no day in an object": (text(parts=[None, {"on": "x"}]), "data.parts holds what is no object (data.parts[1].on"),
    "a text among arrays": (text(grid=[None, "x"]), HOLDS.format("grid", "array")),
    "a text further in": (text(grid=[None, [None, "1"]]), HOLDS.format("grid", "array")),
    "a text in a map of integers": (text(sizes={"a": None, "b": "1"}), "data.sizes['b'] is no integer"),
    "a text in a map of numbers": (text(rates={"a": None, "b": "1"}), "data.rates['b'] is no number"),
    "a number in a map of texts": (text(names={"a": None, "b": 12}), "data.names['b'] is no string"),
    "no day in a map": (text(dues={"a": None, "b": "soon"}), "data.dues['b'] is no date"),
    "too many digits in a map": (text(costs={"a": None, "b": "1.005"}), "data.costs['b'] is no decimal(6,2)"),
    "a number in a map's array": (text(lists={"a": None, "b": [None, 1]}), "data.lists['b'] holds what is no string"),
    "a text in a map of objects": (text(shops={"a": None, "b": "x"}), "data.shops['b'] is no object"),
    "a text in a map's object": (text(shops={"a": None, "b": {"n": "1"}}), "data.shops['b'].n is no integer"),
    "a key twice": (b'{"sizes":{"a":null,"a":null}}', "data.sizes['a'] is there twice"),
    "a number in an object's array": (text(where={"tags": [None, 1]}), "data.where.tags holds what is no string"),
    "a number in an object's map": (text(where={"m": {"a": None, "b": 1}}), "data.where.m['b'] is no boolean"),
    "null where it isn't allowed": (
        text(firm=[1, None]),
        "data.firm holds what is no integer (data.firm[1] is missing",
    ),
    "null further in where it isn't": (text(solid=[[None]]), "data.solid holds what is no array (data.solid[0] holds"),
    "a null array where it isn't": (text(solid=[None]), "data.solid holds what is no array (data.solid[0] is missing"),
    "no array": (text(texts="x"), "data.texts is no array"),
}


@pytest.mark.parametrize("settings", [{}, LIVE], ids=["compiled", "interpreted"])
def test_every_record_gets_its_decision(spark: SparkSession, settings: Mapping[str, str]) -> None:
    conf = {"spark.sql.codegen.wholeStage": "false", **settings}
    check_decisions(spark, conf, TOPIC, GOOD, BAD, dict.fromkeys(FIELDS))


def test_each_contract_decides_for_its_own_records(spark: SparkSession) -> None:
    def version(name: str, **fields: Any) -> Contract:
        return Contract(name, 1, {"type": "object", "properties": {"v": {"type": "string"}, **fields}})

    plain = {
        "days": {"type": "array", "items": DAY},
        "names": {"type": "object", "additionalProperties": {"type": "string"}},
        "parts": {"type": "array", "items": PART},
    }
    wide = {name: FIELDS[name] for name in plain}
    topic = Topic(
        "things",
        (version("thing.firm", **plain), version("thing.wide", **wide)),
        records=PlainJson(**BY_LOG, type=TypeField("v")),
    )
    sent: dict[str, dict[str, Any]] = {
        "days": {"days": [None]},
        "names": {"names": {"a": None}},
        "parts": {"parts": [None]},
    }
    values = {
        f"{kind} {name}": text(v=f"thing.{kind}", **fields)
        for kind in ("firm", "wide")
        for name, fields in sent.items()
    }
    rows = decided(spark, values, topic)
    reasons = {name: None if name.startswith("wide") else "contract: data." for name in values}
    assert unexpected(rows, reasons) == {}


SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Thing",
    "fields": [
        {"name": "texts", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "counts", "type": ["null", {"type": "array", "items": ["long", "null"]}]},
        {"name": "shares", "type": {"type": "array", "items": ["null", "double"]}},
        {"name": "firm", "type": {"type": "array", "items": "int"}},
    ],
}


def an_avro_topic(*names: str, **fields: Any) -> Topic:
    node = {"type": "object", "properties": {**{name: FIELDS[name] for name in names}, **fields}}
    return Topic("things", (Contract("thing.made", 1, node),), records=Avro(**BY_LOG, schema=json.dumps(SCHEMA)))


def test_avro_is_read_by_both_decoders(spark: SparkSession) -> None:
    sent = {"texts": ["", None, "12"], "counts": [None, 2**63 - 1], "shares": [0.5, None], "firm": [1]}
    values = {
        "good": avro(sent, SCHEMA),
        "empty": avro({"texts": [], "counts": None, "shares": [], "firm": []}, SCHEMA),
        "NaN": avro({**sent, "shares": [None, float("nan")]}, SCHEMA),
        "cut off": avro(sent, SCHEMA)[:-3],
    }
    topic = an_avro_topic("texts", "counts", "shares", "firm")
    for fast in (False, True):
        rows = decided(spark, values, topic, fast=fast)
        assert unexpected(rows, {"good": None, "empty": None, "NaN": "not_finite", "cut off": "not_avro"}) == {}
        assert rows["good"]["thing_made"] == sent


def test_avro_whose_nulls_the_contract_does_not_allow_goes_by_way_of_json(spark: SparkSession) -> None:
    topic = an_avro_topic("counts", texts={"type": "array", "items": {"type": "string"}})
    assert decode_fast(raw_frame(spark, topic, []), topic) is None
    values = {
        "good": avro({"texts": ["a"], "counts": [None], "shares": [], "firm": []}, SCHEMA),
        "a null": avro({"texts": ["a", None], "counts": [], "shares": [], "firm": []}, SCHEMA),
    }
    rows = decided(spark, values, topic)
    reason = "contract: data.texts holds what is no string (data.texts[1] is missing)"
    assert unexpected(rows, {"good": None, "a null": reason}) == {}
