"""Decimals of contracts: how they may be declared, and which values hold one exactly."""

from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from anabranch.contracts import Contract, Event, PlainJson, Record, TimeField, Topic
from anabranch.contracts.fields.decimals import WrittenFloat, pattern, problem
from anabranch.contracts.fields.field_types import ShapesClash, merge, shape
from anabranch.contracts.model.compatibility import narrowed
from anabranch.contracts.model.contract_registry import register
from anabranch.contracts.model.infer import infer
from anabranch.contracts.sending import EventValidator
from anabranch.core.errors import BadDefinition, BadInput, Conflict
from anabranch.core.settings import load_settings
from anabranch.ingest.landing.table.schema import landing_schema

pytestmark = pytest.mark.unit
TEXT: dict[str, Any] = {"type": "string", "format": "decimal", "precision": 12, "scale": 2}
NUMBER: dict[str, Any] = {**TEXT, "type": "number"}


def contract(version: int = 1, **fields: Any) -> Contract:
    return Contract("payment.made", version, {"type": "object", "properties": fields})


WRONG: list[tuple[dict[str, Any], str]] = [
    ({**TEXT, "type": "integer"}, "a decimal can't be a 'integer'"),
    ({"type": "string", "format": "decimal"}, "a decimal without precision and scale"),
    ({"type": "string", "format": "decimal", "precision": 12}, "a decimal without scale"),
    ({**TEXT, "precision": 0}, "precision 0 isn't a whole number from 1 to 38"),
    ({**TEXT, "precision": 39}, "precision 39 isn't a whole number from 1 to 38"),
    ({**TEXT, "precision": 12.0}, "precision 12.0 isn't a whole number"),
    ({**TEXT, "precision": True}, "precision True isn't a whole number"),
    ({**TEXT, "scale": -1}, "scale -1 isn't a whole number from 0 to the precision, 12"),
    ({**TEXT, "scale": 13}, "scale 13 isn't a whole number from 0 to the precision, 12"),
    ({**TEXT, "scale": "2"}, "scale '2' isn't a whole number"),
    ({**TEXT, "enum": ["1.00"]}, "enum can't be checked of a decimal"),
    ({**TEXT, "pattern": "^1"}, "pattern can't be checked of a decimal"),
    ({**TEXT, "minimum": "a lot"}, "minimum 'a lot' isn't exact"),
    ({**TEXT, "minimum": True}, "minimum True isn't exact"),
    ({**TEXT, "maximum": 1e22}, "maximum 1e+22 isn't exact"),
    ({**NUMBER, "maximum": 1234567890.1234567}, "maximum 1234567890.1234567 isn't exact"),
    ({**NUMBER, "maximum": 0.125}, "maximum 0.125 with more than 2 digits behind the point is no decimal(12,2)"),
    ({**TEXT, "minimum": -(10**10)}, "minimum -10000000000 with more than 10 digits before the point is no decimal"),
    ({"type": "string", "precision": 3}, "precision without format decimal"),
    ({"type": "number", "precision": 3, "scale": 1}, "precision and scale without format decimal"),
]


@pytest.mark.parametrize(("node", "says"), WRONG)
def test_a_decimal_that_is_declared_wrongly_is_refused_with_file_contract_and_field(
    tmp_path: Path, node: dict[str, Any], says: str
) -> None:
    file = tmp_path / "payment.made.v1.json"
    schema = {"type": "object", "properties": {"order": {"type": "object", "properties": {"amount": node}}}}
    file.write_text(json.dumps({"name": "payment.made", "version": 1, "schema": schema}))
    with pytest.raises(BadDefinition) as error:
        Contract.from_file(file)
    assert error.value.code == "CONTRACT_SCHEMA"
    assert error.value.what.startswith(f"{file}: payment.made v1: data.order.amount: {says}")
    assert error.value.next_step


def test_its_limits_may_be_whole_numbers_texts_and_short_fractions() -> None:
    for low, high in ((-5, 5), ("-0.05", "9999999999.99"), (0.05, 12345678.25), ("0", 1_000_000_000)):
        contract(amount={**TEXT, "minimum": low, "maximum": high}, items={"type": "array", "items": NUMBER})


def test_its_column_is_a_decimal_also_below_and_in_arrays() -> None:
    order = {"type": "object", "properties": {"total": NUMBER}}
    paid = contract(amount=TEXT, order=order, parts={"type": "array", "items": {**TEXT, "scale": 0}})
    (column,) = (field.type for field in landing_schema(Topic("t", (paid,))) if field.name == "payment_made")
    assert column.field("amount").type == pa.decimal128(12, 2)
    assert column.field("order").type.field("total").type == pa.decimal128(12, 2)
    assert column.field("parts").type.value_type == pa.decimal128(12, 0)


NOT_A_NUMBER, NOT_A_STRING = "a string where a number is declared", "a number where a string is declared"
ODD = "a string that isn't written like -12.50"
NO_DECIMALS = (
    "",
    "-",
    "+1",
    " 1",
    "1 ",
    "1\n",
    ".5",
    "5.",
    "1,50",
    "1_0",
    "--1",
    "1.2.3",
    "NaN",
    "0x1F",
    "\u0661",
    "$5",
)
VALUES: list[tuple[str, str, str]] = [
    # the JSON text; what is wrong with it where a string, and where a number is declared; "" for nothing
    ('"1234.50"', "", NOT_A_NUMBER),
    ('"-0.05"', "", NOT_A_NUMBER),
    ('"007"', "", NOT_A_NUMBER),
    ('"9999999999.99000"', "", NOT_A_NUMBER),
    ('"-0"', "", NOT_A_NUMBER),
    ('"1.505"', "a string with more than 2 digits behind the point", NOT_A_NUMBER),
    ('"10000000000"', "a string with more than 10 digits before the point", NOT_A_NUMBER),
    (f'"1.{"0" * 38}"', "a string with more than 38 digits", NOT_A_NUMBER),
    ('"1e2"', "a string with an exponent", NOT_A_NUMBER),
    ('"1e999999999"', "a string with an exponent", NOT_A_NUMBER),
    *((json.dumps(text), ODD, NOT_A_NUMBER) for text in NO_DECIMALS),
    ("1234.5", NOT_A_STRING, ""),
    ("-7", NOT_A_STRING, ""),
    ("1.500", NOT_A_STRING, ""),
    ("9999999999.99", NOT_A_STRING, ""),
    ("1.505", NOT_A_STRING, "a number with more than 2 digits behind the point"),
    ("0.30000000000000004", NOT_A_STRING, "a number with more than 2 digits behind the point"),
    ("0.10000000000000000001", NOT_A_STRING, "a number with more than 2 digits behind the point"),
    ("10000000000.00", NOT_A_STRING, "a number with more than 10 digits before the point"),
    ("1" * 40, NOT_A_STRING, "a number with more than 10 digits before the point"),
    (f"1.{'0' * 38}", NOT_A_STRING, "a number with more than 38 digits"),
    ("1.5e2", NOT_A_STRING, "a number with an exponent"),
    ("1E0", NOT_A_STRING, "a number with an exponent"),
    ("1e999999999", NOT_A_STRING, "a number with an exponent"),
    ("1e-999999999", NOT_A_STRING, "a number with an exponent"),
    ("true", "a boolean where a string is declared", "a boolean where a number is declared"),
    ("[1]", "an array where a string is declared", "an array where a number is declared"),
    ("{}", "an object where a string is declared", "an object where a number is declared"),
]


@pytest.mark.parametrize(("text", "of_a_string", "of_a_number"), VALUES)
def test_what_is_wrong_is_said_and_the_producer_refuses_the_same(text: str, of_a_string: str, of_a_number: str) -> None:
    value = json.loads(text, parse_float=WrittenFloat)
    assert (problem(value, TEXT), problem(value, NUMBER)) == (of_a_string, of_a_number)
    for node, why in ((TEXT, of_a_string), (NUMBER, of_a_number)):
        paid = contract(amount=node)
        body = Event("1", "/s", paid.name, "k", datetime(2013, 1, 1, tzinfo=UTC), {"amount": "XX"}, paid.uri).to_json()
        check = EventValidator([paid]).check_bytes
        sent = body.replace(b'"XX"', text.encode())
        if not why:
            check(sent)
            continue
        with pytest.raises(BadInput) as error:
            check(sent)
        assert error.value.fields["field"] == "data.amount"


@pytest.mark.parametrize("hostile", ["0" * 1_000_000 + "x", "1." + "0" * 1_000_000 + "x", "1" * 1_000_000, "-" * 10**6])
def test_a_megabyte_is_refused_at_once(hostile: str) -> None:
    for scale in (0, 2, 38):
        started = time.thread_time()  # whatever else the machine does; one that backtracks takes minutes
        assert problem(hostile, {**TEXT, "precision": 38, "scale": scale})
        assert time.thread_time() - started < 2.0


def test_any_number_of_zeros_in_front_counts_for_nothing() -> None:
    assert re.fullmatch(pattern(TEXT), "-" + "0" * 1_000 + "1.50")
    assert problem("0." + "0" * 38, {**TEXT, "precision": 38, "scale": 38}) == ""
    assert problem("0." + "0" * 39, {**TEXT, "precision": 38, "scale": 38}) == "a string with more than 38 digits"


def checked(data: dict[str, Any], **fields: Any) -> None:
    """As the producer does it."""
    paid = contract(**fields)
    event = Event("1", "/s", paid.name, "k", datetime(2013, 1, 1, tzinfo=UTC), data, paid.uri)
    EventValidator([paid]).check_bytes(event.to_json())


def test_a_producer_sends_strings_decimals_whole_numbers_and_floats_that_are_short_enough() -> None:
    checked({"amount": Decimal("1E+3"), "fee": 3}, amount=TEXT, fee=NUMBER)
    checked({"amount": "19.99", "fee": 19.99}, amount=TEXT, fee=NUMBER)
    checked({"amount": None, "fee": None}, amount=TEXT, fee=NUMBER)
    event = Event("1", "/s", "a.b", "k", datetime(2013, 1, 1, tzinfo=UTC), {"amount": Decimal("1E+3")}, "urn:x")
    assert json.loads(event.to_json())["data"] == {"amount": "1000"}


@pytest.mark.parametrize(
    ("data", "field", "says"),
    [
        ({"fee": 0.1 + 0.2}, "data.fee", "is no decimal(12,2): a number with more than 2 digits behind the point"),
        ({"fee": Decimal("0.30")}, "data.fee", ""),
        ({"amount": Decimal("0.305")}, "data.amount", "a string with more than 2 digits behind the point"),
        ({"amount": Decimal("NaN")}, "data.amount", "a string that isn't written like"),
        ({"amount": "-5.01"}, "data.amount", "is below -5"),
        ({"amount": "0.06"}, "data.amount", "is above 0.05"),
        ({"parts": [{"price": "1"}, {"price": "0.001"}]}, "data.parts.1.price", "more than 2 digits behind the point"),
    ],
)
def test_what_a_producer_may_not_send_is_named(data: dict[str, Any], field: str, says: str) -> None:
    parts = {"type": "array", "items": {"type": "object", "properties": {"price": {**TEXT, "sent_as": "price"}}}}
    with pytest.raises(BadInput) as error:
        checked(data, amount={**TEXT, "minimum": -5, "maximum": "0.05"}, fee=NUMBER, parts=parts)
    assert error.value.fields["field"] == field
    assert says in error.value.what


def test_it_can_be_no_part_of_an_envelope() -> None:
    paid = contract(amount=TEXT, fee=NUMBER)
    for mapping, says in (
        (PlainJson(id="amount", time=Record.APPEND_TIME), "id: amount is a string decimal(12,2) in payment.made v1"),
        (PlainJson(id=Record.OFFSET, time=Record.APPEND_TIME, subject="fee"), "subject: fee is a number decimal(12,2)"),
        (PlainJson(id=Record.OFFSET, time=TimeField("amount", format="yyyy")), "time: amount has a format, but isn't"),
    ):
        with pytest.raises(BadDefinition) as error:
            Topic("payments", (paid,), records=mapping)
        assert (error.value.code, says in error.value.what) == ("MAPPING", True), error.value.what


OTHERS = [{**TEXT, "precision": 14}, {**TEXT, "scale": 3}, NUMBER, {"type": "string"}]


@pytest.mark.parametrize("other", OTHERS)
def test_two_decimals_that_differ_are_two_types(tmp_path: Path, other: dict[str, Any]) -> None:
    one = contract(amount=TEXT)
    with pytest.raises(ShapesClash, match=r"data.amount is string decimal\(12,2\) and"):
        merge([one.schema, contract(amount=other).schema])
    with pytest.raises(BadDefinition) as error:
        Topic("payments", (one, contract(2, amount=other)))
    assert error.value.code == "CONTRACT_INCOMPATIBLE"
    assert "data.amount was string decimal(12,2) and is" in error.value.what
    settings = load_settings(home=tmp_path / "home")
    register(settings, Topic("payments", (one,)))
    with pytest.raises(Conflict) as changed:
        register(settings, Topic("payments", (contract(amount=other),)))
    assert changed.value.code == "CONTRACT_CHANGED"


def test_its_shape_has_precision_and_scale_and_no_limits() -> None:
    assert shape({**TEXT, "minimum": 0, "description": "x"}) == TEXT


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ({"minimum": "0.05"}, {"minimum": 0.05}, []),
        ({"minimum": 0}, {"minimum": "0.01"}, ["data.amount has a higher minimum"]),
        ({"minimum": "9007199254740992.01"}, {"minimum": "9007199254740992.02"}, ["data.amount has a higher minimum"]),
        ({}, {"maximum": "5"}, ["data.amount has a lower maximum"]),
        ({"maximum": "5"}, {}, []),
    ],
)
def test_its_limits_are_compared_exactly(old: dict[str, Any], new: dict[str, Any], says: list[str]) -> None:
    wide = {**TEXT, "precision": 38}
    assert narrowed(contract(amount={**wide, **old}), contract(2, amount={**wide, **new})) == says


def test_a_text_that_looks_like_money_is_asked_about() -> None:
    def of(*values: Any) -> dict[str, Any]:
        found = infer("payment.made", [json.dumps({"n": n, "amount": value}) for n, value in enumerate(values)])
        return dict(found.schema["properties"]["amount"])

    found = of("12.50", "-3.00", "1000.00")
    assert found["type"] == "string"
    assert '"format": "decimal", "precision": 18, "scale": 2' in found["description"]
    for values in (("12.50", "n/a"), ("12", "13"), ("1.50", "1.5"), ("2013-01-01", "2013-01-02")):
        assert "description" not in of(*values)
