"""Several versions of one contract: what landing holds of them together, and what an upcaster may be asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from anabranch.contracts import Contract, Topic, Upcaster
from anabranch.contracts.fields.field_types import ShapesClash, merge, shape
from anabranch.contracts.model.compatibility import required_from_upcaster
from anabranch.contracts.model.contract import Compatibility
from anabranch.contracts.model.contract_registry import check_registered, record_path, register
from anabranch.core.errors import BadDefinition, Conflict
from anabranch.core.settings import Settings, load_settings
from anabranch.ingest.landing.table.schema import landing_schema

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import Column

pytestmark = pytest.mark.unit
TEXT, WHOLE = {"type": "string"}, {"type": "integer"}


def thing(properties: Mapping[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties), "required": list(required)}


def contract(version: int, fields: Mapping[str, Any], *required: str, rule: str = "backward") -> Contract:
    return Contract("parcel.seen", version, thing(fields, *required), Compatibility(rule))


def split(old: Mapping[str, Column]) -> Mapping[str, Column]:
    return {"place": old["city"]}


CITY = contract(1, {"city": TEXT, "n": WHOLE}, "city")
PLACE = contract(2, {"place": TEXT, "n": WHOLE}, "place")
UPCAST = Upcaster("parcel.seen", 1, split)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load_settings(home=tmp_path / "home")


def test_the_union_has_the_fields_of_all_versions_nested_ones_too_the_oldest_first() -> None:
    where = thing({"city": TEXT}, "city")
    wider = thing({"zip": TEXT, "city": {**TEXT, "enum": ["Rome"]}})
    tags, more = ({"type": "array", "items": thing(fields)} for fields in ({"a": TEXT}, {"b": WHOLE}))
    found = merge([thing({"where": where, "tags": tags}), thing({"n": WHOLE, "tags": more, "where": wider})])
    assert found == {
        "type": "object",
        "properties": {
            "where": {"type": "object", "properties": {"city": TEXT, "zip": TEXT}},
            "tags": {"type": "array", "items": {"type": "object", "properties": {"a": TEXT, "b": WHOLE}}},
            "n": WHOLE,
        },
    }
    assert list(found["properties"]["where"]["properties"]) == ["city", "zip"]


@pytest.mark.parametrize(
    "other", [WHOLE, {"type": "string", "format": "date"}, thing({}), {"type": "array", "items": TEXT}]
)
def test_a_path_has_one_type(other: Mapping[str, Any]) -> None:
    with pytest.raises(ShapesClash) as caught:
        merge([thing({"where": thing({"city": TEXT})}), thing({"where": thing({"city": other})})])
    assert caught.value.path == "data.where.city"


def test_a_field_does_not_come_back_as_something_else() -> None:
    versions = [contract(1, {"n": WHOLE, "x": WHOLE}), contract(2, {"n": WHOLE}), contract(3, {"n": WHOLE, "x": TEXT})]
    with pytest.raises(BadDefinition) as caught:
        Topic("parcels", tuple(versions))
    assert caught.value.code == "FIELD_TYPES_CLASH"


def test_landing_holds_the_fields_of_all_versions() -> None:
    topic = Topic("parcels", (PLACE, CITY), upcasters=(UPCAST,))
    assert [f.name for f in landing_schema(topic).field("parcel_seen").type] == ["city", "n", "place"]
    assert topic.newest("parcel.seen") is PLACE
    assert topic.versions("parcel.seen") == (CITY, PLACE)


def test_one_version_is_its_own_shape() -> None:
    assert Topic("parcels", (CITY,)).shape("parcel.seen") is CITY.schema
    assert shape(CITY.schema) == {"type": "object", "properties": {"city": TEXT, "n": WHOLE}}


def test_backward_is_kept_by_an_upcaster_and_not_without_one() -> None:
    with pytest.raises(BadDefinition) as caught:
        Topic("parcels", (CITY, PLACE))
    assert caught.value.code == "CONTRACT_INCOMPATIBLE"
    assert caught.value.fields["broken"] == ("data.place is required by one version only",)
    assert "upcaster" in caught.value.next_step
    Topic("parcels", (CITY, PLACE), upcasters=(UPCAST,))
    assert required_from_upcaster(CITY, PLACE) == {"place"}


def test_an_upcaster_owes_what_is_narrower_wherever_it_lies() -> None:
    where, small = thing({"zip": TEXT}), thing({"zip": {**TEXT, "pattern": "^[0-9]+$"}})
    old = contract(1, {"where": where, "n": WHOLE, "kind": TEXT})
    new = contract(2, {"where": small, "n": {**WHOLE, "minimum": 0}, "kind": {**TEXT, "enum": ["box"]}})
    assert required_from_upcaster(old, new) == {"where", "n", "kind"}


@pytest.mark.parametrize("rule", ["forward", "full"])
def test_an_upcaster_does_not_help_a_reader_of_the_old_version(rule: str) -> None:
    new = contract(2, {"place": TEXT, "n": WHOLE}, "place", rule=rule)
    with pytest.raises(BadDefinition) as caught:
        Topic("parcels", (CITY, new), upcasters=(UPCAST,))
    assert caught.value.code == "CONTRACT_INCOMPATIBLE"


def test_none_promises_nothing_and_owes_nothing() -> None:
    new = contract(2, {"place": TEXT, "n": WHOLE}, "place", rule="none")
    Topic("parcels", (CITY, new))
    assert required_from_upcaster(CITY, new) == frozenset()


def test_no_upcaster_changes_a_type() -> None:
    with pytest.raises(BadDefinition) as caught:
        Topic("parcels", (CITY, contract(2, {"city": WHOLE})), upcasters=(UPCAST,))
    assert caught.value.code == "CONTRACT_INCOMPATIBLE"
    assert "another name" in caught.value.next_step


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ((Upcaster("parcel.seen", 2, split),), "UPCASTER_ALONE"),
        ((Upcaster("parcel.lost", 1, split),), "UPCASTER_ALONE"),
        ((UPCAST, UPCAST), "UPCASTER_TWICE"),
    ],
)
def test_an_upcaster_has_a_version_to_come_from_and_one_to_go_to(given: tuple[Upcaster, ...], code: str) -> None:
    with pytest.raises(BadDefinition) as caught:
        Topic("parcels", (CITY, PLACE), upcasters=given)
    assert caught.value.code == code


@pytest.mark.parametrize("function", [lambda old: old, partial(split), dict, None])
def test_an_upcaster_has_a_source_to_look_at(function: Any) -> None:
    with pytest.raises(BadDefinition) as caught:
        Upcaster("parcel.seen", 1, function)
    assert caught.value.code == "UPCASTER_FUNCTION"


def test_a_field_is_as_sent_until_an_upcaster_stands_in_between() -> None:
    third = contract(3, {"place": TEXT, "n": WHOLE, "m": WHOLE}, "place")
    topic = Topic("parcels", (CITY, PLACE, third), upcasters=(UPCAST,))
    sent = {name: topic.as_sent("parcel.seen", name) for name in ("n", "place", "m", "city")}
    assert sent == {"n": (1, 2, 3), "place": (2, 3), "m": (3,), "city": ()}
    limited = contract(2, {"place": TEXT, "n": {**WHOLE, "minimum": 0}}, "place")
    assert Topic("parcels", (CITY, limited), upcasters=(UPCAST,)).as_sent("parcel.seen", "n") == (2,)
    assert Topic("parcels", (CITY, replace(limited, compatibility=Compatibility.NONE))).as_sent("parcel.seen", "n") == (
        1,
        2,
    )
    plain = Topic("parcels", (CITY, contract(2, {"city": TEXT, "n": WHOLE, "m": WHOLE})))
    assert plain.as_sent("parcel.seen", "n") == (1, 2)


def test_a_version_is_written_down_and_kept(settings: Settings) -> None:
    topic = Topic("parcels", (CITY, PLACE), upcasters=(UPCAST,))
    assert check_registered(settings, topic) == [CITY, PLACE]
    register(settings, topic)
    assert check_registered(settings, topic) == []
    words = contract(1, {"n": {**WHOLE, "description": "how many"}, "city": TEXT}, "city")
    assert check_registered(settings, Topic("parcels", (words, PLACE), upcasters=(UPCAST,))) == []


@pytest.mark.parametrize(
    "changed",
    [
        contract(1, {"city": TEXT, "n": WHOLE, "x": TEXT}, "city"),
        contract(1, {"city": TEXT}, "city"),
        contract(1, {"city": TEXT, "n": TEXT}, "city"),
        contract(1, {"city": TEXT, "n": WHOLE}, "city", "n"),
        contract(1, {"city": {**TEXT, "pattern": "^A"}, "n": WHOLE}, "city"),
    ],
)
def test_a_version_does_not_become_another_one(settings: Settings, changed: Contract) -> None:
    register(settings, Topic("parcels", (CITY,)))
    with pytest.raises(Conflict) as caught:
        register(settings, Topic("parcels", (changed,)))
    assert caught.value.code == "CONTRACT_CHANGED"
    assert "parcel.seen.v2.json" in caught.value.next_step
    assert check_registered(settings, Topic("parcels", (CITY,))) == []


def test_a_version_that_only_lets_more_through_is_mended(settings: Settings) -> None:
    narrow = contract(1, {"n": {**WHOLE, "maximum": 9}}, "n")
    register(settings, Topic("parcels", (narrow,)))
    mended = contract(1, {"n": {**WHOLE, "maximum": 99}}, "n")
    register(settings, Topic("parcels", (mended,)))
    assert check_registered(settings, Topic("parcels", (mended,))) == []
    with pytest.raises(Conflict):
        register(settings, Topic("parcels", (narrow,)))


def test_a_version_does_not_vanish(settings: Settings) -> None:
    register(settings, Topic("parcels", (CITY, PLACE), upcasters=(UPCAST,)))
    with pytest.raises(Conflict) as caught:
        check_registered(settings, Topic("parcels", (PLACE,)))
    assert (caught.value.code, caught.value.fields["version"]) == ("CONTRACT_VANISHED", 1)
    record_path(settings, CITY).unlink()
    assert check_registered(settings, Topic("parcels", (PLACE,))) == []
