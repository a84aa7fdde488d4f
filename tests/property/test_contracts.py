"""Random data against random contracts: what the contract allows passes, one broken field is refused by its name,
and no input at all ends in anything else than a refusal."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from anabranch.contracts import Contract, Event
from anabranch.contracts.sending import EventValidator
from anabranch.core.errors import BadInput
from hypothesis import given
from hypothesis import strategies as st

pytestmark = pytest.mark.property

TEXT = st.text(st.characters(codec="utf-8"))
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "string": TEXT,
    "integer": st.integers(-(2**63), 2**63 - 1),
    "number": st.floats(allow_nan=False, allow_infinity=False),
    "boolean": st.booleans(),
}
WRONG: dict[str, Any] = {"string": 1, "integer": 1.5, "number": "1", "boolean": 0}
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@st.composite
def contracts(draw: st.DrawFn) -> Contract:
    names = draw(st.lists(st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True), min_size=1, max_size=6, unique=True))
    properties = {name: {"type": draw(st.sampled_from(sorted(VALUES)))} for name in names}
    required = draw(st.lists(st.sampled_from(names), unique=True))
    return Contract("a.b", 1, {"type": "object", "properties": properties, "required": required})


@st.composite
def contract_and_data(draw: st.DrawFn) -> tuple[Contract, dict[str, Any]]:
    contract = draw(contracts())
    data: dict[str, Any] = {}
    for name, field in contract.fields.items():
        value = VALUES[field["type"]]
        if name in contract.required:
            data[name] = draw(value)
        elif draw(st.booleans()):
            data[name] = draw(value | st.none())
    return contract, data


def event(contract: Contract, data: dict[str, Any], text: str = "x") -> bytes:
    return Event(text, text, contract.name, text, datetime(2013, 1, 1, tzinfo=UTC), data, contract.uri).to_json()


@given(contract_and_data(), TEXT.filter(bool))
def test_data_that_keeps_its_contract_passes_and_comes_back_as_it_was(
    made: tuple[Contract, dict[str, Any]], text: str
) -> None:
    contract, data = made
    value = event(contract, data, text)
    EventValidator([contract]).check_bytes(value)
    assert json.loads(value)["data"] == data
    assert json.loads(value)["subject"] == text


@given(contract_and_data(), st.data())
def test_one_field_of_another_type_is_refused_by_its_name(
    made: tuple[Contract, dict[str, Any]], draw: st.DataObject
) -> None:
    contract, data = made
    name = draw.draw(st.sampled_from(sorted(contract.fields)))
    with pytest.raises(BadInput) as caught:
        EventValidator([contract]).check_bytes(event(contract, {**data, name: WRONG[contract.fields[name]["type"]]}))
    assert (caught.value.code, caught.value.fields["field"]) == ("EVENT_REFUSED", f"data.{name}")


@given(contracts(), ANY_JSON | st.binary())
def test_anything_else_is_refused_and_nothing_worse(contract: Contract, anything: Any) -> None:
    value = anything if isinstance(anything, bytes) else json.dumps(anything).encode()
    with pytest.raises(BadInput) as caught:
        EventValidator([contract]).check_bytes(value)
    assert caught.value.code == "EVENT_REFUSED"
