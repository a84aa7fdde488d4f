"""Nested fields, arrays and chains of versions: what each event sent lands in its own version's fields only, and the
newest shape is the same for Spark and for plain Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from anabranch.contracts import Contract, Event, Topic, Upcaster
from anabranch.contracts.model.contract import Compatibility
from anabranch.contracts.model.topics import Topics
from anabranch.core.settings import Settings
from anabranch.lake import open_table
from anabranch.lake.cut import Cut
from anabranch.lake.layout import landing_table
from anabranch.views import view
from anabranch.views._upcasting import check_upcasters
from anabranch.views.model.handle import ViewHandle
from anabranch.views.selection.inputs import events_at, frames
from pyspark.sql import Column
from pyspark.sql import functions as F
from support.evolved_contract import TWO, Departure, land

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)
TEXT, WHOLE = {"type": "string"}, {"type": "integer"}
SINCE = {"type": "string", "format": "date"}


def thing(fields: Mapping[str, Any], *required: str) -> dict[str, Any]:
    found = {"type": "object", "properties": dict(fields)}
    return {**found, "required": list(required)} if required else found


def parcel(version: int, fields: Mapping[str, Any], *required: str) -> Contract:
    return Contract("parcel.seen", version, thing(fields, *required), Compatibility.BACKWARD)


def grams(old: Mapping[str, Column]) -> Mapping[str, Column]:
    return {"grams": old["kilos"] * 1000}


def weight(old: Mapping[str, Column]) -> Mapping[str, Column]:
    return {"weight": F.struct(old["grams"].alias("grams"), F.lit(None).cast("string").alias("by"))}


WHERE = thing({"city": TEXT, "since": SINCE})
TAGS = {"type": "array", "items": thing({"a": TEXT})}
MORE_TAGS = {"type": "array", "items": thing({"b": WHOLE, "a": TEXT})}
TOPIC = Topic(
    "parcels",
    (
        parcel(1, {"kilos": WHOLE, "where": thing({"city": TEXT}), "tags": TAGS, "code": WHOLE}, "kilos"),
        parcel(
            2, {"where": thing({"city": TEXT, "since": SINCE}), "grams": WHOLE, "tags": TAGS, "code": WHOLE}, "grams"
        ),
        parcel(
            4,
            {
                "weight": thing({"grams": WHOLE, "by": TEXT}),
                "where": thing({"zip": TEXT, "city": TEXT}),
                "tags": MORE_TAGS,
                "note": TEXT,
                "code": WHOLE,
            },
            "weight",
        ),
    ),
    upcasters=(Upcaster("parcel.seen", 1, grams), Upcaster("parcel.seen", 2, weight)),
    allowed_lateness=timedelta(hours=1),
)
NEW = ("code", "note", "tags", "weight", "where")


@view(name="parcels", version=1, events="parcel.seen", key=["event_id", "event_time"], partition_by="event_time")
def parcels(seen: DataFrame) -> DataFrame:
    return seen.select("event_id", "event_time", *NEW)


def event(name: str, version: int | None, data: Mapping[str, Any]) -> Event:
    uri = f"urn:anabranch:contract:parcel.seen:{version}" if version else None
    return Event(name, "test", "parcel.seen", "s", NOON, dict(data), uri)  # type: ignore[arg-type]


SENT: dict[str, tuple[int | None, dict[str, Any]]] = {
    "one": (1, {"kilos": 2, "where": {"city": "Rome"}, "tags": [{"a": "x"}], "code": 7}),
    "one with what it doesn't know": (
        1,
        {
            "kilos": 3,
            "where": {"city": "Bonn", "zip": 53, "since": "no date"},
            "tags": None,
            "note": 12,
            "grams": "not that",
            "weight": 5,
        },
    ),
    "one with more in its items": (1, {"kilos": 1, "tags": [{"a": "y", "b": 3}], "minutes": 1}),
    "two": (2, {"grams": 5, "where": {"city": "Ulm", "since": "2013-01-01", "zip": "x"}, "note": "unknown here"}),
    "four": (4, {"weight": {"grams": 9, "by": "me"}, "where": {"zip": "1"}, "tags": [{"b": 1}], "note": "n"}),
    "no version": (None, {"weight": {"grams": 1}}),
}
WANTED: dict[str, dict[str, Any]] = {
    "one": {
        "weight": {"grams": 2000, "by": None},
        "where": {"zip": None, "city": "Rome"},
        "tags": [{"b": None, "a": "x"}],
    }
    | {"note": None, "code": 7},
    "one with what it doesn't know": {
        "weight": {"grams": 3000, "by": None},
        "where": {"zip": None, "city": "Bonn"},
        "tags": None,
        "note": None,
        "code": None,
    },
    "one with more in its items": {"weight": {"grams": 1000, "by": None}, "tags": [{"b": None, "a": "y"}]}
    | {"where": None, "note": None, "code": None},
    "two": {"weight": {"grams": 5, "by": None}, "where": {"zip": None, "city": "Ulm"}}
    | {"tags": None, "note": None, "code": None},
    "four": {"weight": {"grams": 9, "by": "me"}, "where": {"zip": "1", "city": None}, "tags": [{"b": 1, "a": None}]}
    | {"note": "n", "code": None},
    "no version": {"weight": {"grams": 1, "by": None}, "where": None, "tags": None, "note": None, "code": None},
}


@pytest.fixture
def landed_rows(spark: SparkSession, settings: Settings) -> dict[str, dict[str, Any]]:
    land(spark, settings, TOPIC, [event(name, *sent) for name, sent in SENT.items()])
    table = open_table(landing_table(settings, TOPIC.name))
    assert table is not None
    return {row["event_id"]: row for row in table.to_pyarrow_table().to_pylist()}


def test_an_event_lands_by_its_own_version_only(landed_rows: dict[str, dict[str, Any]]) -> None:
    assert {name: row["decision"] for name, row in landed_rows.items()} == dict.fromkeys(SENT, "valid")
    versions = {name: row["contract_version"] for name, row in landed_rows.items()}
    assert versions == {name: version or 4 for name, (version, _) in SENT.items()}
    held = landed_rows["one with what it doesn't know"]["parcel_seen"]
    assert held == {
        "kilos": 3,
        "where": {"city": "Bonn", "since": None, "zip": None},
        "tags": None,
        "code": None,
        "grams": None,
        "weight": None,
        "note": None,
    }
    assert landed_rows["two"]["parcel_seen"]["where"]["since"] is not None


def test_the_newest_shape_of_all_of_them(
    spark: SparkSession, settings: Settings, landed_rows: dict[str, dict[str, Any]]
) -> None:
    check_upcasters(spark, TOPIC, ["parcel.seen"])
    cut = land(spark, settings, TOPIC)
    (seen,) = frames(events_at(spark, ViewHandle(settings, parcels, TOPIC), cut, None, late=True), parcels, TOPIC)
    assert seen.columns[-5:] == list(TOPIC.newest("parcel.seen").fields)
    rows = {row["event_id"]: row for row in parcels(seen).toArrow().to_pylist()}
    assert {name: {k: row[k] for k in NEW} for name, row in rows.items()} == WANTED


def test_a_field_that_left_and_came_back_is_not_that_of_the_first(spark: SparkSession, settings: Settings) -> None:
    """Nobody who saw v2 would have it: v1 to v3 is v2 to v3 after v1 to v2."""
    versions = tuple(
        Contract("parcel.seen", n, thing(fields), Compatibility.NONE)
        for n, fields in ((1, {"code": WHOLE}), (2, {"n": WHOLE}), (3, {"code": WHOLE}))
    )
    topic = Topic("parcels", versions)
    cut = land(spark, settings, topic, [event(f"{n}", n, {"code": n}) for n in (1, 2, 3)])
    (seen,) = frames(events_at(spark, ViewHandle(settings, parcels, topic), cut, None, late=True), parcels, topic)
    assert {row["event_id"]: row["code"] for row in seen.toArrow().to_pylist()} == {"1": None, "2": None, "3": 3}


def test_an_optional_field_more_costs_nothing(spark: SparkSession, settings: Settings) -> None:
    versions = (parcel(1, {"code": WHOLE}), parcel(2, {"code": WHOLE, "n": WHOLE}))
    topic = Topic("parcels", versions)
    cut = land(spark, settings, topic, [event("1", 1, {"code": 1, "n": 5}), event("2", 2, {"code": 2, "n": 6})])
    (seen,) = frames(events_at(spark, ViewHandle(settings, parcels, topic), cut, None, late=True), parcels, topic)
    assert "CASE" not in seen._jdf.queryExecution().optimizedPlan().toString()
    rows = {row["event_id"]: (row["code"], row["n"]) for row in seen.toArrow().to_pylist()}
    assert rows == {"1": (1, None), "2": (2, 6)}


def test_a_view_over_two_topics_sees_the_newest_of_each(spark: SparkSession, settings: Settings) -> None:
    both = Topics((TWO, TOPIC))
    view_of_both = replace(parcels, events=("flight.departed", "parcel.seen"), function=lambda departed, seen: seen)
    departed = [Departure("01 12:00", 5), Departure("01 12:01", -4, "ORD", 2)]
    positions = {**land(spark, settings, TWO, departed).positions}
    positions |= land(spark, settings, TOPIC, [event("one", *SENT["one"])]).positions
    events = events_at(spark, ViewHandle(settings, view_of_both, both), Cut(positions), None, late=True)
    flights, seen = frames(events, view_of_both, both)
    rows = flights.select("destination", "minutes_early", "minutes_late").toArrow().to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == [("ATL", 0, 5), ("ORD", 4, 0)]
    assert [row["weight"] for row in seen.toArrow().to_pylist()] == [WANTED["one"]["weight"]]
