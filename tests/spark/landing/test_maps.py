"""Maps in plain JSON: what becomes of each record, with its reason, and what the columns hold."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from anabranch.contracts import Contract, PlainJson, Record, Topic, TypeField
from anabranch.core.engine.spark import LIVE
from support.things_topic import as_dicts, check_decisions, decided, unexpected

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
MONEY: dict[str, Any] = {"type": "string", "format": "decimal", "precision": 6, "scale": 2}


def a_map(values: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": values}


FIELDS: dict[str, Any] = {
    "counts": a_map({"type": "integer"}),
    "texts": a_map({"type": "string"}),
    "shares": a_map({"type": "number"}),
    "flags": a_map({"type": "boolean"}),
    "prices": a_map(MONEY),
    "fees": a_map({**MONEY, "type": "number"}),
    "days": a_map({"type": "string", "format": "date"}),
    "times": a_map({"type": "string", "format": "date-time"}),
    "lists": a_map({"type": "array", "items": {"type": "string"}}),
    "shops": a_map(
        {
            "type": "object",
            "properties": {
                "sku": {"type": "string", "sent_as": "item-no"},
                "since": {"type": "string", "format": "date"},
                "stock": a_map({"type": "integer"}),
            },
        }
    ),
    "deep": a_map(a_map({"type": "string"})),
    "lines": {"type": "array", "items": {"type": "object", "properties": {"tags": a_map({"type": "string"})}}},
    "several": {"type": "array", "items": a_map(MONEY)},
    "where": {"type": "object", "properties": {"labels": a_map({"type": "string"})}},
}
MADE = Contract("thing.made", 1, {"type": "object", "required": ["counts"], "properties": FIELDS})
TOPIC = Topic("things", (MADE,), records=PlainJson(id=Record.OFFSET, time=Record.APPEND_TIME))


def text(**fields: Any) -> bytes:
    return json.dumps({"counts": {}, **fields}).encode()


GOOD: dict[str, tuple[bytes, dict[str, Any]]] = {
    "empty": (b'{"counts":{}}', {"counts": {}}),
    "whole numbers": (
        b'{"counts":{"north":1,"":-9223372036854775808,"\\u00e9.[]\\"":9223372036854775807}}',
        {"counts": {"north": 1, "": -(2**63), 'é.[]"': 2**63 - 1}},
    ),
    "texts that look like others": (
        text(texts={"a": "12", "b": "true", "c": "null", "d": "{", "e": "", "f": "\U0001f6eb"}),
        {"texts": {"a": "12", "b": "true", "c": "null", "d": "{", "e": "", "f": "\U0001f6eb"}},
    ),
    "keys in another case": (text(counts={"a": 1, "A": 2}), {"counts": {"a": 1, "A": 2}}),
    "numbers": (b'{"counts":{},"shares":{"a":1,"b":-0.5,"c":1e300}}', {"shares": {"a": 1.0, "b": -0.5, "c": 1e300}}),
    "booleans": (text(flags={"a": True, "b": False}), {"flags": {"a": True, "b": False}}),
    "decimals": (
        b'{"counts":{},"prices":{"a":"1234.50"},"fees":{"a":0.10,"b":-7}}',
        {"prices": {"a": Decimal("1234.50")}, "fees": {"a": Decimal("0.10"), "b": Decimal("-7.00")}},
    ),
    "days and times": (
        text(days={"a": "2020-02-29"}, times={"a": "2020-01-01T12:00:00.5+01:00"}),
        {"days": {"a": date(2020, 2, 29)}, "times": {"a": datetime(2020, 1, 1, 11, 0, 0, 500_000, tzinfo=UTC)}},
    ),
    "lists": (text(lists={"a": [], "b": ["12", ""]}), {"lists": {"a": [], "b": ["12", ""]}}),
    "objects": (
        text(
            shops={"a": {"item-no": "7", "since": "2020-01-01", "stock": {"x": 1}, "other": [{}]}, "b": {"since": None}}
        ),
        {
            "shops": {
                "a": {"sku": "7", "since": date(2020, 1, 1), "stock": {"x": 1}},
                "b": {"sku": None, "since": None, "stock": None},
            }
        },
    ),
    "maps of maps": (text(deep={"a": {"b": "12"}, "c": {}}), {"deep": {"a": {"b": "12"}, "c": {}}}),
    "maps in lists": (
        text(lines=[{"tags": {"a": "1"}}, {}], several=[{"a": "0.10"}, {}]),
        {"lines": [{"tags": {"a": "1"}}, {"tags": None}], "several": [{"a": Decimal("0.10")}, {}]},
    ),
    "a map in an object": (text(where={"labels": {"a": "b"}}), {"where": {"labels": {"a": "b"}}}),
    "null": (text(texts=None, where={"labels": None}), {"where": {"labels": None}}),
    "the map twice, the last counts": (b'{"counts":{"a":1,"a":2},"counts":{"b":3}}', {"counts": {"b": 3}}),
    "an object's name twice": (
        b'{"counts":{},"shops":{"a":{"item-no":"1","item-no":"2"}}}',
        {"shops": {"a": {"sku": "2", "since": None, "stock": None}}},
    ),
}
BAD: dict[str, tuple[bytes, str]] = {
    "missing": (b"{}", "data.counts is missing"),
    "no object": (text(counts=[1]), "data.counts is no object"),
    "a text": (text(counts=""), "data.counts is no object"),
    "a text where a whole number is declared": (
        text(counts={"a": 1, "north": "1"}),
        "data.counts['north'] is no integer",
    ),
    "a fraction": (b'{"counts":{"a":5.0}}', "data.counts['a'] is no integer"),
    "beyond 64 bits": (b'{"counts":{"a":9223372036854775808}}', "data.counts['a'] is no integer"),
    "a boolean": (text(counts={"a": True}), "data.counts['a'] is no integer"),
    "a null value": (text(counts={"a": None}), "data.counts['a'] is null"),
    "a null text": (text(texts={"a": None}), "data.texts['a'] is null"),
    "a key twice": (b'{"counts":{"a":1,"b":2,"a":1}}', "data.counts['a'] is there twice"),
    "a key twice, once escaped": (b'{"counts":{"a":1,"\\u0061":2}}', "data.counts['a'] is there twice"),
    "two halves of pairs": (b'{"counts":{"\\ud800":1,"\\ud801":2}}', "data.counts['?'] is there twice"),
    "a number where a text is declared": (text(texts={"a": 12}), "data.texts['a'] is no string"),
    "a boolean where a text is declared": (text(texts={"a": True}), "data.texts['a'] is no string"),
    "an object where a text is declared": (text(texts={"a": {"b": 1, "c": 2}}), "data.texts['a'] is no string"),
    "twice below a text": (b'{"counts":{},"texts":{"a":{"b":1,"b":2}}}', "data.texts['a'] is no string"),
    "a text where a number is declared": (text(shares={"a": "1"}), "data.shares['a'] is no number"),
    "NaN as a text": (text(shares={"a": "NaN"}), "data.shares['a'] is no number"),
    "a number where a boolean is declared": (text(flags={"a": 0}), "data.flags['a'] is no boolean"),
    "too many digits": (text(prices={"a": "1.005"}), "data.prices['a'] is no decimal(6,2): a string with more than 2"),
    "a number for a decimal text": (text(prices={"a": 1}), "data.prices['a'] is no decimal(6,2): a number where"),
    "a text for a decimal number": (text(fees={"a": "1"}), "data.fees['a'] is no decimal(6,2): a string where"),
    "an exponent": (b'{"counts":{},"fees":{"a":1e1}}', "data.fees['a'] is no decimal(6,2): a number with an exponent"),
    "no day": (text(days={"a": "2020-02-30"}), "data.days['a'] is no date"),
    "a number as a day": (text(days={"a": 2020}), "data.days['a'] is no date"),
    "no time": (text(times={"a": "2020-01-01"}), "data.times['a'] is no date-time"),
    "no list": (text(lists={"a": "x"}), "data.lists['a'] is no array"),
    "a null in a list": (text(lists={"a": [None]}), "data.lists['a'] holds what is no string"),
    "a number in a list": (text(lists={"a": ["x", 12]}), "data.lists['a'] holds what is no string (data.lists['a'][1]"),
    "no object in a map": (text(shops={"a": 1}), "data.shops['a'] is no object"),
    "a null object": (text(shops={"a": None}), "data.shops['a'] is null"),
    "a number in an object's text": (text(shops={"a": {"item-no": 12}}), "data.shops['a'].item-no is no string"),
    "no day in an object": (text(shops={"a": {"since": "soon"}}), "data.shops['a'].since is no date"),
    "a wrong map in an object": (text(shops={"a": {"stock": {"x": "1"}}}), "data.shops['a'].stock['x'] is no integer"),
    "a key twice further in": (b'{"counts":{},"deep":{"a":{"x":"1","x":"1"}}}', "data.deep['a']['x'] is there twice"),
    "a wrong text further in": (text(deep={"a": {"x": 1}}), "data.deep['a']['x'] is no string"),
    "a null further in": (text(deep={"a": None}), "data.deep['a'] is null"),
    "a wrong map in a list": (
        text(lines=[{"tags": {"a": 12}}]),
        "data.lines holds what is no object (data.lines[0].tags",
    ),
    "a key twice in a list": (
        b'{"counts":{},"lines":[{"tags":{"a":"","a":""}}]}',
        "data.lines holds what is no object",
    ),
    "a wrong decimal in a list": (
        text(several=[{"a": "x"}]),
        "data.several holds what is no object (data.several[0]['a']",
    ),
    "a null in a list of maps": (
        text(several=[{"a": None}]),
        "data.several holds what is no object (data.several[0]['a']",
    ),
    "no map in an object": (text(where={"labels": "x"}), "data.where.labels is no object"),
    "a wrong map of an object": (text(where={"labels": {"a": 12}}), "data.where.labels['a'] is no string"),
    "a long key": (text(counts={"k" * 500: "x"}), f"data.counts['{'k' * 60}...'] is no integer"),
}


@pytest.mark.parametrize("settings", [{}, LIVE], ids=["compiled", "interpreted"])
def test_every_record_gets_its_decision(spark: SparkSession, settings: Mapping[str, str]) -> None:
    conf = {"spark.sql.codegen.wholeStage": "false", **settings}
    check_decisions(spark, conf, TOPIC, GOOD, BAD, {**dict.fromkeys(FIELDS), "counts": {}})


def test_each_version_keeps_its_own_fields_in_a_map(spark: SparkSession) -> None:
    def version(number: int, **fields: Any) -> Contract:
        shops = a_map({"type": "object", "properties": fields})
        properties = {"v": {"type": "string"}, "shops": shops, "lists": a_map({"type": "array", "items": shops})}
        return Contract(f"thing.v{number}", 1, {"type": "object", "properties": properties})

    sku, day = {"type": "string", "sent_as": "item-no"}, {"type": "string", "format": "date"}
    records = PlainJson(id=Record.OFFSET, time=Record.APPEND_TIME, type=TypeField("v"))
    topic = Topic("things", (version(1, sku=sku), version(2, sku=sku, day=day)), records=records)
    shop = {"item-no": "1", "day": "2020-01-01", "other": 1}
    data = {"shops": {"a": shop}, "lists": {"x": [{"b": shop}]}}
    values = {name: json.dumps({"v": name, **data}).encode() for name in ("thing.v1", "thing.v2")}
    wrong = {"v": "thing.v1", "shops": {"a": {"item-no": "1", "day": 7}}}
    rows = decided(spark, {**values, "another type's field": json.dumps(wrong).encode()}, topic)
    reasons: dict[str, str | None] = {"thing.v1": None, "thing.v2": None, "another type's field": None}
    assert unexpected(rows, reasons) == {}
    first, second = {"sku": "1"}, {"sku": "1", "day": date(2020, 1, 1)}
    for name, column, right in (("thing.v1", "thing_v1", first), ("thing.v2", "thing_v2", second)):
        landed = as_dicts(rows[name][column], topic.newest(name).schema)
        assert landed == {"v": name, "shops": {"a": right}, "lists": {"x": [{"b": right}]}}
    assert as_dicts(rows["another type's field"]["thing_v1"], topic.newest("thing.v1").schema)["shops"] == {"a": first}
