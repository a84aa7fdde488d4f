"""A new version of a contract keeps the promise of its compatibility, or the topic is refused."""

from __future__ import annotations

from typing import Any

import pytest
from anabranch.contracts import Contract, Topic
from anabranch.contracts.model.contract import Compatibility
from anabranch.core.errors import BadDefinition

pytestmark = pytest.mark.unit

OLD: dict[str, Any] = {
    "n": {"type": "integer", "minimum": 0, "maximum": 9},
    "kind": {"type": "string", "enum": ["box", "bag"]},
    "code": {"type": "string", "pattern": "^A$"},
    "at": {"type": "string", "format": "date-time"},
}
REQUIRED = ("n", "kind")


def topic(rule: str, new: dict[str, Any], required: tuple[str, ...] = REQUIRED) -> Topic:
    def contract(version: int, fields: dict[str, Any], required: tuple[str, ...]) -> Contract:
        schema = {"type": "object", "properties": fields, "required": list(required)}
        return Contract("parcel.seen", version, schema, Compatibility(rule))

    return Topic("parcels", (contract(2, {**OLD, **new}, required), contract(1, OLD, REQUIRED)))


WIDER: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"n": {"type": "integer", "minimum": -1, "maximum": 10}}, REQUIRED),
    ({"kind": {"type": "string", "enum": ["box", "bag", "tin"]}}, REQUIRED),
    ({"kind": {"type": "string"}}, REQUIRED),
    ({"code": {"type": "string"}}, REQUIRED),
    ({}, ("n",)),
]
NARROWER: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"n": {"type": "integer", "minimum": 1, "maximum": 9}}, REQUIRED),
    ({"n": {"type": "integer", "minimum": 0, "maximum": 8}}, REQUIRED),
    ({"kind": {"type": "string", "enum": ["box"]}}, REQUIRED),
    ({"more": {"type": "string"}}, (*REQUIRED, "more")),
    ({}, (*REQUIRED, "code")),
]


@pytest.mark.parametrize(("new", "required"), WIDER)
def test_a_wider_version_is_backward_and_not_forward(new: dict[str, Any], required: tuple[str, ...]) -> None:
    topic("backward", new, required)
    for rule in ("forward", "full"):
        with pytest.raises(BadDefinition) as caught:
            topic(rule, new, required)
        assert caught.value.code == "CONTRACT_INCOMPATIBLE"
        assert len(caught.value.fields["broken"]) >= 1


@pytest.mark.parametrize(("new", "required"), NARROWER)
def test_a_narrower_version_is_forward_and_not_backward(new: dict[str, Any], required: tuple[str, ...]) -> None:
    topic("forward", new, required)
    for rule in ("backward", "full"):
        with pytest.raises(BadDefinition) as caught:
            topic(rule, new, required)
        assert caught.value.code == "CONTRACT_INCOMPATIBLE"


def test_one_more_optional_field_is_compatible_both_ways() -> None:
    assert topic("full", {"more": {"type": "string"}}).newest("parcel.seen").version == 2


@pytest.mark.parametrize("rule", list(Compatibility))
@pytest.mark.parametrize(
    "new", [{"n": {"type": "number", "minimum": 0, "maximum": 9}}, {"at": {"type": "string"}}], ids=["type", "format"]
)
def test_no_rule_allows_another_type(rule: str, new: dict[str, Any]) -> None:
    with pytest.raises(BadDefinition) as caught:
        topic(rule, new)
    assert caught.value.code == "CONTRACT_INCOMPATIBLE"
    assert any(" was " in reason for reason in caught.value.fields["broken"])
