"""A view over two topics whose event types have one column name in landing is refused where Spark would change values,
and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest
from anabranch.contracts import Contract, Topic
from anabranch.contracts.model.declarations import Declarations
from anabranch.core.errors import BadDefinition
from anabranch.views import View
from anabranch.views.registry import sources_of

pytestmark = pytest.mark.unit
WHOLE, TEXT, NUMBER = {"type": "integer"}, {"type": "string"}, {"type": "number"}


def contract(name: str, **fields: Any) -> Contract:
    return Contract(name, 1, {"type": "object", "properties": {"id": TEXT, **fields}})


def declared(first: dict[str, Any], second: dict[str, Any], other: str = "a_b.c") -> Declarations:
    """``first`` in one topic, and ``second`` in another one, each with an event type that clashes with nothing."""
    one = Topic("one", (contract("a.b_c", **first), contract("one.seen", n=WHOLE)))
    two = Topic("two", (contract(other, **second), contract("two.seen", n=TEXT)))
    return Declarations({topic.name: topic for topic in (one, two)})


def over(*events: str) -> View:
    return View("both", 1, events, ("id",), lambda *inputs: inputs[0])


CLASHES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "another type": ({"n": WHOLE}, {"n": TEXT}, "their fields n differ"),
    "a wider type": ({"n": WHOLE}, {"n": NUMBER}, "their fields n differ"),
    "within an object": (
        {"at": {"type": "object", "properties": {"n": WHOLE}}},
        {"at": {"type": "object", "properties": {"n": NUMBER}}},
        "their fields at.n differ",
    ),
    "within an array": (
        {"n": {"type": "array", "items": WHOLE}},
        {"n": {"type": "array", "items": TEXT}},
        "their fields n differ",
    ),
    "only in case": ({"gateNumber": WHOLE}, {"gatenumber": WHOLE}, "their fields gateNumber and gatenumber differ"),
}


@pytest.mark.parametrize("name", CLASHES)
@pytest.mark.parametrize("events", [("a.b_c", "a_b.c"), ("one.seen", "two.seen"), ("two.seen", "a.b_c")])
def test_fields_of_two_types_in_one_column_are_refused(name: str, events: tuple[str, str]) -> None:
    """Whatever the view reads of the two topics: their tables are read as one."""
    first, second, said = CLASHES[name]
    with pytest.raises(BadDefinition) as refused:
        sources_of(over(*events), declared(first, second))
    assert refused.value.code == "VIEW_EVENTS"
    assert "share the column a_b_c" in refused.value.what
    assert said in refused.value.what


@pytest.mark.parametrize(
    ("first", "second", "other"),
    [
        ({"n": WHOLE}, {"n": WHOLE, "m": TEXT}, "a_b.c"),
        ({"n": WHOLE}, {"m": TEXT}, "a_b.c"),
        ({"n": WHOLE}, {"n": TEXT}, "a.d"),
    ],
    ids=["the same types", "no field in common", "another column"],
)
def test_what_can_be_read_together_is(first: dict[str, Any], second: dict[str, Any], other: str) -> None:
    found = sources_of(over("a.b_c", other), declared(first, second, other))
    assert [topic.name for topic in found.each] == ["one", "two"]


def test_a_view_over_one_of_the_topics_is_not_concerned() -> None:
    assert sources_of(over("a.b_c", "one.seen"), declared({"n": WHOLE}, {"n": TEXT})).each[0].name == "one"
