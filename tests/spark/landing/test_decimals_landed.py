"""Decimals in landing: each value is the one that was written, or its record is in quarantine and says why."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from anabranch.contracts import Contract, PlainJson, Record, Topic
from anabranch.contracts.fields.decimals import WrittenFloat, problem, type_name
from anabranch.core.engine.spark import LIVE
from anabranch.ingest.landing.decoding import decode, raw_frame, with_reasons
from anabranch.ingest.landing.table.schema import landing_schema
from anabranch.ingest.landing.table.schema_projection import node_of
from support import naive_reader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
TEXT: dict[str, Any] = {"type": "string", "format": "decimal", "precision": 12, "scale": 2}
NUMBER: dict[str, Any] = {**TEXT, "type": "number"}
WIDE: dict[str, Any] = {**NUMBER, "precision": 38, "scale": 2}
PAID = Contract(
    "payment.made",
    1,
    {
        "type": "object",
        "required": ["n", "amount"],
        "properties": {
            "n": {"type": "integer"},
            "amount": {**TEXT, "minimum": "-5.50", "maximum": 9_000_000_000},
            "fee": NUMBER,
            "wide": WIDE,
            "tiny": {**TEXT, "precision": 38, "scale": 38},
            "whole": {**NUMBER, "precision": 20, "scale": 0},
            "parts": {"type": "array", "items": NUMBER},
            "order": {"type": "object", "required": ["sum"], "properties": {"id": {"type": "string"}, "sum": TEXT}},
            "lines": {
                "type": "array",
                "items": {"type": "object", "properties": {"net": {**TEXT, "sent_as": "n-e-t"}}},
            },
        },
    },
)
TOPIC = Topic("payments", (PAID,), records=PlainJson(id="n", time=Record.APPEND_TIME))
APPENDED = datetime(2020, 1, 1, 12, tzinfo=UTC)


def D(text: str) -> Decimal:  # noqa: N802 - as short as the values
    return Decimal(text)


STRING, NO = "a string where a number is declared", "is no decimal(12,2): "
CASES: dict[str, tuple[str, Any]] = {
    # among the fields of a record: what lands of it, or the reason
    '"amount":"1234.50"': ("amount", D("1234.50")),
    '"amount":"1234.5"': ("amount", D("1234.50")),
    '"amount":"7"': ("amount", D("7.00")),
    '"amount":"-5.50"': ("amount", D("-5.50")),
    '"amount":"-0"': ("amount", D("0.00")),
    '"amount":"0.100000"': ("amount", D("0.10")),
    '"amount":"000012.50"': ("amount", D("12.50")),
    '"amount":"\\u0031.5"': ("amount", D("1.50")),
    '"amount":null': ("", "data.amount is missing"),
    '"amount":"-5.51"': ("", "data.amount is below -5.50"),
    '"amount":"9000000000.01"': ("", "data.amount is above 9000000000"),
    '"amount":"1.505"': ("", f"data.amount {NO}a string with more than 2 digits behind the point"),
    '"amount":"0.001"': ("", f"data.amount {NO}a string with more than 2 digits behind the point"),
    '"amount":"10000000000"': ("", f"data.amount {NO}a string with more than 10 digits before the point"),
    '"amount":"1e2"': ("", f"data.amount {NO}a string with an exponent"),
    '"amount":""': ("", f"data.amount {NO}a string that isn't written like -12.50"),
    '"amount":"+1"': ("", f"data.amount {NO}a string that isn't written like -12.50"),
    '"amount":" 1"': ("", f"data.amount {NO}a string that isn't written like -12.50"),
    '"amount":"1\\n"': ("", f"data.amount {NO}a string that isn't written like -12.50"),
    '"amount":".5"': ("", f"data.amount {NO}a string that isn't written like -12.50"),
    '"amount":"5."': ("", f"data.amount {NO}a string that isn't written like -12.50"),
    '"amount":"1,234.50"': ("", f"data.amount {NO}a string that isn't written like -12.50"),
    '"amount":"NaN"': ("", f"data.amount {NO}a string that isn't written like -12.50"),
    '"amount":"\u0661\u0662"': ("", f"data.amount {NO}a string that isn't written like -12.50"),
    '"amount":12.5': ("", f"data.amount {NO}a number where a string is declared"),
    '"amount":true': ("", f"data.amount {NO}a boolean where a string is declared"),
    '"amount":["1"]': ("", f"data.amount {NO}an array where a string is declared"),
    '"amount":{"a":1,"a":2}': ("", f"data.amount {NO}an object where a string is declared"),
    '"fee":1234.5': ("fee", D("1234.50")),
    '"fee":-7': ("fee", D("-7.00")),
    '"fee":1.500': ("fee", D("1.50")),
    '"fee":-0.0': ("fee", D("0.00")),
    '"fee":null': ("fee", None),
    '"fee":9999999999.99': ("fee", D("9999999999.99")),
    '"fee":"1.5"': ("", f"data.fee {NO}{STRING}"),
    '"fee":"null"': ("", f"data.fee {NO}{STRING}"),
    '"fee":0.30000000000000004': ("", f"data.fee {NO}a number with more than 2 digits behind the point"),
    '"fee":0.1000000000000000055511151231257827': ("", f"data.fee {NO}a number with more than 2 digits behind the"),
    '"fee":9999999999.995': ("", f"data.fee {NO}a number with more than 2 digits behind the point"),
    '"fee":10000000000': ("", f"data.fee {NO}a number with more than 10 digits before the point"),
    '"fee":1.5e2': ("", f"data.fee {NO}a number with an exponent"),
    '"fee":1E0': ("", f"data.fee {NO}a number with an exponent"),
    '"fee":1e999999999': ("", f"data.fee {NO}a number with an exponent"),
    '"fee":-1e-999999999': ("", f"data.fee {NO}a number with an exponent"),
    f'"fee":{"1" * 40}': ("", f"data.fee {NO}a number with more than 10 digits before the point"),
    f'"fee":1.{"0" * 40}': ("", f"data.fee {NO}a number with more than 38 digits"),
    f'"fee":{"1" * 3_000}': ("", f"data.fee {NO}a number with more than 10 digits before the point"),
    '"fee":NaN': ("", "not_json"),
    '"fee":Infinity': ("", "not_json"),
    '"fee":+1': ("", "not_json"),
    '"fee":007': ("", "not_json"),
    '"fee":.5': ("", "not_json"),
    '"fee":false': ("", f"data.fee {NO}a boolean where a number is declared"),
    '"fee":1,"fee":2': ("fee", D("2.00")),
    '"fee":1,"fee":"2"': ("", f"data.fee {NO}{STRING}"),
    '"wide":12345678901234567890.12': ("wide", D("12345678901234567890.12")),
    '"wide":0.3': ("wide", D("0.30")),
    '"wide":123456789012345678': ("wide", D("123456789012345678.00")),
    f'"wide":-{"9" * 36}.99': ("wide", D(f"-{'9' * 36}.99")),
    f'"wide":{"9" * 36}.990': ("", "data.wide is no decimal(38,2): a number with more than 38 digits"),
    f'"tiny":"0.{"0" * 37}1"': ("tiny", D(f"0.{'0' * 37}1")),
    f'"tiny":"{"0" * 100_000}.{"1" * 38}"': ("tiny", D(f"0.{'1' * 38}")),
    '"tiny":"1"': ("", "data.tiny is no decimal(38,38): a string with more than 0 digits before the point"),
    f'"tiny":"0.{"0" * 100_000}"': ("", "data.tiny is no decimal(38,38): a string with more than 38 digits"),
    '"whole":18446744073709551616': ("whole", D("18446744073709551616")),
    '"whole":5.0': ("whole", D("5")),
    '"whole":5.5': ("", "data.whole is no decimal(20,0): a number with more than 0 digits behind the point"),
    '"parts":[0.1,0.2,-3]': ("parts", [D("0.10"), D("0.20"), D("-3.00")]),
    '"parts":[]': ("parts", []),
    '"parts":[0.1,0.001]': ("", f"data.parts holds what is no decimal(12,2) (data.parts[1] {NO}a number with more"),
    '"parts":[0.1,"0.2"]': ("", f"data.parts holds what is no decimal(12,2) (data.parts[1] {NO}{STRING}"),
    '"parts":[null]': ("", "data.parts holds what is no decimal(12,2) (data.parts[0] is missing)"),
    '"parts":1': ("", "data.parts is no array"),
    '"order":{"sum":"0.30"}': ("order", {"id": None, "sum": D("0.30")}),
    '"order":{"id":"x"}': ("", "data.order.sum is missing"),
    '"order":{"sum":null}': ("", "data.order.sum is missing"),
    '"order":{"sum":0.3}': ("", f"data.order.sum {NO}a number where a string is declared"),
    '"lines":[{"n-e-t":"0.10"},{}]': ("lines", [{"net": D("0.10")}, {"net": None}]),
    '"lines":[{"n-e-t":null}]': ("lines", [{"net": None}]),
    '"lines":[{"n-e-t":"1"},{"n-e-t":"0.105"}]': ("", f"data.lines holds what is no object (data.lines[1].n-e-t {NO}"),
    '"lines":[{"n-e-t":0.1}]': ("", f"data.lines holds what is no object (data.lines[0].n-e-t {NO}a number where"),
}  # fmt: skip


def record(n: int, fields: str) -> bytes:
    needed = "" if '"amount"' in fields else ',"amount":"1"'
    return f'{{"n":{n}{needed},{fields}}}'.encode()


def decided(spark: SparkSession, topic: Topic, values: list[bytes]) -> list[dict[str, Any]]:
    appended = int(APPENDED.timestamp() * 1_000_000)
    records = [
        {"partition": 0, "offset": n, "append_time": appended, "key": b"k", "value": value}
        for n, value in enumerate(values)
    ]
    rows = with_reasons(decode(raw_frame(spark, topic, records), topic).toArrow(), topic).to_pylist()
    return sorted(rows, key=lambda row: int(row["offset"]))


@pytest.fixture(scope="module", params=[{}, LIVE], ids=["compiled", "interpreted"])
def own(spark: SparkSession, request: pytest.FixtureRequest) -> SparkSession:
    session = spark.newSession()
    for key, value in {"spark.sql.codegen.wholeStage": "false", **request.param}.items():
        session.conf.set(key, value)
    return session


def test_every_value_lands_exactly_or_in_quarantine(own: SparkSession) -> None:
    rows = decided(own, TOPIC, [record(n, fields) for n, fields in enumerate(CASES)])
    wrong = dict[str, object]()
    for (fields, (name, expected)), row in zip(CASES.items(), rows, strict=True):
        if name:
            found = (row["reason"], str(row["payment_made"] and row["payment_made"][name]))
            wrong |= {} if found == (None, str(expected)) else {fields[:80]: (found, expected)}
        else:
            reason = (row["reason"] or "lands").removeprefix("contract: ")
            wrong |= {} if reason.startswith(expected) else {fields[:80]: (reason, expected)}
            assert (row["decision"], row["payment_made"]) == ("quarantined", None)
    assert wrong == {}


def written(chance: Random, node: Mapping[str, Any]) -> str:
    """A JSON value that is a decimal of this field, or nearly one."""
    room = node["precision"] - node["scale"]
    whole = str(chance.randrange(10 ** max(1, room + chance.choice([-3, -1, 0, 0, 0, 1])))) if room else "0"
    digits = max(0, node["scale"] + chance.choice([-1, 0, 0, 0, 1, 15]))
    fraction = str(chance.randrange(10**digits)).zfill(digits) + "0" * chance.choice([0, 0, 0, 1, 3, 40])
    text = chance.choice(["", "", "-"]) + whole + (f".{fraction}" if fraction and chance.random() < 0.8 else "")
    if chance.random() < 0.1:
        text += chance.choice(["e0", "E2", "e-1", "e+300", "e-999999999"])
    if (node["type"] == "string") != (chance.random() < 0.1):
        where, odd = chance.randrange(len(text) + 1), chance.choice([*("" for _ in range(30)), *"0+ .,-eE_\u0661"])
        text = json.dumps(text[:where] + odd + text[where:])
    return chance.choice(["null", "true", '""', "[]"]) if chance.random() < 0.03 else text


def test_landing_decides_as_a_reader_that_shares_no_code_with_it(own: SparkSession) -> None:
    names, chance = ("amount", "fee", "wide", "tiny", "whole"), Random("decimals")
    free = {name: {k: v for k, v in PAID.fields[name].items() if k not in ("minimum", "maximum")} for name in names}
    paid = Contract("payment.made", 1, {"type": "object", "properties": {"n": {"type": "integer"}, **free}})
    sent = [(name, written(chance, free[name])) for name in names for _ in range(300)]
    topic = replace(TOPIC, contracts=(paid,))
    rows = decided(own, topic, [f'{{"n":{n},"{name}":{text}}}'.encode() for n, (name, text) in enumerate(sent)])
    wrong, kept = [], 0
    for (name, text), row in zip(sent, rows, strict=True):
        value = json.loads(text, parse_float=naive_reader.Written)
        expected = None if value is None else naive_reader.decimal_of(value, free[name])
        fits = value is None or expected is not None
        found = row["payment_made"][name] if row["decision"] == "valid" else None
        kept += expected is not None
        producer = value is None or not problem(json.loads(text, parse_float=WrittenFloat), free[name])
        reason = "" if fits else f"contract: data.{name} is no {type_name(free[name])}: "
        decided_so = (row["decision"] == "valid", producer, found, (row["reason"] or "").startswith(reason))
        if decided_so != (fits, fits, expected, True):
            wrong.append((name, text, found, expected, row["reason"]))
    assert wrong == []
    assert 400 < kept < 1_200


def test_what_spark_makes_of_a_number_otherwise_is_not_what_was_written(spark: SparkSession) -> None:
    """Why decimals are parsed as variants. When this fails, Spark parses texts exactly, and it can be simpler."""
    from pyspark.sql import functions as F

    number = "0.1000000000000000055511151231257827"
    frame = spark.createDataFrame([(f'{{"x":{number}}}',)], "text string")
    as_text, as_decimal, as_variant = (
        F.from_json("text", f"x {kind}")["x"].cast("string") for kind in ("string", "decimal(38,20)", "variant")
    )
    found = frame.select(as_text.alias("a"), as_decimal.alias("b"), as_variant.alias("c")).first()
    assert found is not None
    assert (found["a"], found["b"], found["c"]) == ("0.1", "0.10000000000000000555", number)


def test_a_landed_column_is_known_again(spark: SparkSession) -> None:
    schema = spark.createDataFrame(landing_schema(TOPIC).empty_table()).schema
    node = node_of(schema["payment_made"].dataType)["properties"]
    assert node["amount"] == NUMBER  # how records hold it is no matter of the column
    assert node["wide"] == WIDE
    assert node["parts"] == {"type": "array", "items": NUMBER}
