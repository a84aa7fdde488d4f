"""The form of a migration, checked again: each wrong value by the name of its field."""

from __future__ import annotations

from typing import Any

import pytest
from anabranch.change.migrate.migration_request import parse_migration_request, parse_retirement_request
from anabranch.change.migrate.promotion_checks import Expectations
from anabranch.core.errors import BadInput

pytestmark = pytest.mark.unit
LEAST: dict[str, Any] = {"view": "delays", "why": "v2 is better"}


def test_what_is_left_out_has_a_value() -> None:
    found = parse_migration_request({**LEAST, "from": None, "to": None, "steps": "", "changed": None})
    assert (found.old, found.new, found.steps, found.soak_seconds) == (None, None, (1, 5, 25, 50, 100), 600)
    assert found.promise == Expectations()


def test_all_of_it() -> None:
    more = {"from": 1, "to": 3, "steps": "10, 100", "soak": "2 hours", "behind": 5}
    found = parse_migration_request(LEAST | more | {"changed": ["delayed ", ""], "checks": ["flights >= delayed"]})
    assert (found.old, found.new, found.steps, found.soak_seconds) == (1, 3, (10, 100), 7200)
    assert found.promise == Expectations(("delayed",), ("flights >= delayed",), 5)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("view", ""),
        ("view", "../../etc"),
        ("view", "a; drop table"),
        ("view", 7),
        ("why", " \n "),
        ("why", None),
        ("why", "x" * 3_000),
        ("from", "1"),
        ("from", 0),
        ("to", True),
        ("to", 1.5),
        ("steps", "1,,5"),
        ("steps", "1,$(id)"),
        ("steps", "-1,100"),
        ("steps", ",".join(["1"] * 50)),
        ("steps", [1, 100]),
        ("soak", "soon"),
        ("soak", "-1 hours"),
        ("soak", "10 minutes; sleep 9"),
        ("changed", "delayed"),
        ("changed", [1]),
        ("changed", ["x"] * 21),
        ("checks", {"a": "b"}),
        ("checks", ["x" * 3_000]),
        ("behind", -1),
        ("behind", "30"),
        ("behind", True),
    ],
)
def test_what_is_wrong_is_named(field: str, value: object) -> None:
    with pytest.raises(BadInput) as refusal:
        parse_migration_request(LEAST | {field: value})
    assert refusal.value.fields["field"] == field
    assert "nothing was started" in str(refusal.value)


def test_a_retirement() -> None:
    found = parse_retirement_request(LEAST | {"version": 1})
    assert (found.view, found.version, found.grace_seconds, found.why) == ("delays", 1, 7 * 86_400, "v2 is better")


@pytest.mark.parametrize(
    ("field", "value"), [("view", "../x"), ("version", None), ("version", "1"), ("grace", "soon"), ("why", "")]
)
def test_what_is_wrong_in_a_retirement_is_named(field: str, value: object) -> None:
    with pytest.raises(BadInput) as refusal:
        parse_retirement_request(LEAST | {"version": 1, field: value})
    assert refusal.value.fields["field"] == field
