"""UUIDs and times of day land as they were sent, or in quarantine, as a naive reader and the sender's check say."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest
from anabranch.contracts import Avro, Contract, PlainJson, Record, Topic
from anabranch.contracts.sending import RecordCheck
from anabranch.core.engine.spark import LIVE
from support.avro_records import avro, text
from support.text_formats import NO_TIMES, NO_UUIDS, TIMES, UUIDS, is_time_of_day, is_uuid
from support.things_topic import decided

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
UUID: dict[str, Any] = {"type": "string", "format": "uuid"}
TIME: dict[str, Any] = {"type": "string", "format": "time"}
TEXT: dict[str, Any] = {"type": "string"}
BY_LOG: dict[str, Any] = {"id": Record.OFFSET, "time": Record.APPEND_TIME}
# Where a text may be: the fields of the contract, a record with it, the way to it in the row, the path in the reason.
PLACES: dict[str, tuple[Any, Any]] = {
    "a field": (lambda node: node, lambda value: value),
    "in an object": (lambda node: {"type": "object", "properties": {"a": node}}, lambda value: {"a": value}),
    "an item": (lambda node: {"type": "array", "items": node}, lambda value: [value]),
    "an item that may be null": (
        lambda node: {"type": "array", "items": {**node, "type": ["string", "null"]}},
        lambda value: [None, value],
    ),
    "of a map": (lambda node: {"type": "object", "additionalProperties": node}, lambda value: {"a": value}),
    "in an array of objects": (
        lambda node: {"type": "array", "items": {"type": "object", "properties": {"a": node}}},
        lambda value: [{"a": value}],
    ),
}
FORMATS: dict[str, tuple[dict[str, Any], tuple[Any, ...], Any]] = {
    "uuid": (UUID, (*UUIDS, *NO_UUIDS), is_uuid),
    "time": (TIME, (*TIMES, *NO_TIMES), is_time_of_day),
}


@pytest.mark.parametrize("settings", [{}, LIVE], ids=["compiled", "interpreted"])
@pytest.mark.parametrize("name", FORMATS)
def test_a_text_lands_as_it_is_or_is_quarantined(spark: SparkSession, settings: Mapping[str, str], name: str) -> None:
    own = spark.newSession()
    for key, value in {"spark.sql.codegen.wholeStage": "false", **settings}.items():
        own.conf.set(key, value)
    node, texts, judge = FORMATS[name]
    fields = {f"f{n}": make(node) for n, (make, _) in enumerate(PLACES.values())}
    contract = Contract("thing.made", 1, {"type": "object", "properties": fields})
    topic = Topic("things", (contract,), records=PlainJson(**BY_LOG))
    data = {f"f{n} {each!r}": {f"f{n}": put(each)} for n, (_, put) in enumerate(PLACES.values()) for each in texts}
    rows = decided(own, {case: json.dumps(each).encode() for case, each in data.items()}, topic)
    check, wrong = RecordCheck(topic), []
    for case, content in data.items():
        ((field, held),) = content.items()
        value = next(each for each in texts if case == f"{field} {each!r}")
        fits = isinstance(value, str) and judge(value)
        row = rows[case]
        landed = row["thing_made"] and row["thing_made"][field]
        right = [*held.items()] if fits and "additionalProperties" in fields[field] else held if fits else None
        may_be_sent = check.problem(json.dumps(content).encode(), content) is None
        said = f" is no {name}" in (row["reason"] or "")
        if (row["decision"], landed, may_be_sent, said) != ("valid" if fits else "quarantined", right, fits, not fits):
            wrong.append((case, row["decision"], landed, row["reason"], may_be_sent))
    assert wrong == []


def test_a_version_without_the_format_keeps_its_texts(spark: SparkSession) -> None:
    """Both versions share one column, and each is held to its own rule, whichever is declared first."""
    plain = Contract(
        "thing.made", 1, {"type": "object", "properties": {"id": TEXT, "all": {"type": "array", "items": TEXT}}}
    )
    both = {"id": UUID, "all": {"type": "array", "items": UUID}}
    ruled = Contract("thing.made", 2, {"type": "object", "properties": both}, plain.compatibility.NONE)
    loose = Contract("thing.made", 3, plain.schema)
    event: dict[str, Any] = {"specversion": "1.0", "source": "/s", "type": "thing.made", "time": "2020-01-01T12:00:00Z"}
    values = {
        f"{version.version} {field} {good}": json.dumps(
            {**event, "id": f"{version.version}{field}{good}", "dataschema": version.uri,
             "data": {field: UUIDS[1] if good else "p-7"} if field == "id" else {field: [UUIDS[1] if good else "p-7"]}}
        ).encode()
        for version in (plain, ruled, loose) for field in ("id", "all") for good in (True, False)
    }  # fmt: skip
    for contracts in ((plain, ruled, loose), (loose, ruled, plain)):
        rows = decided(spark, values, Topic("things", contracts))
        refused = {name: row["reason"] for name, row in rows.items() if row["decision"] != "valid"}
        assert refused == {
            "2 id False": "contract: data.id is no uuid",
            "2 all False": "contract: data.all holds what is no string (data.all[0] is no uuid)",
        }
        assert rows["1 id False"]["thing_made"]["id"] == "p-7"
        assert rows["3 all False"]["thing_made"]["all"] == ["p-7"]
        assert rows["2 id True"]["thing_made"]["id"] == UUIDS[1]


SCHEMA = {
    "type": "record",
    "name": "Thing",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "key", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "opens", "type": ["null", "string"], "default": None},
    ],
}


@pytest.mark.parametrize("fast", [False, True], ids=["as JSON", "in columns"])
def test_avro_is_held_to_them_too(spark: SparkSession, fast: bool) -> None:
    contract = Contract("thing.made", 1, {"type": "object", "properties": {"id": UUID, "key": UUID, "opens": TIME}})
    topic = Topic("things", (contract,), records=Avro(id="id", time=Record.APPEND_TIME, schema=text(SCHEMA)))
    texts = [(each, None) for each in (*UUIDS, *NO_UUIDS)] + [(UUIDS[0], each) for each in (*TIMES, *NO_TIMES)]
    sent = [(one, two) for one, two in texts if isinstance(one, str) and one and (two is None or isinstance(two, str))]
    values = {str(n): avro({"id": one, "key": UUIDS[0], "opens": two}, SCHEMA) for n, (one, two) in enumerate(sent)}
    rows = decided(spark, values, topic, fast=fast)
    for n, (one, two) in enumerate(sent):
        fits = is_uuid(one) and (two is None or is_time_of_day(two))
        row = rows[str(n)]
        assert (row["decision"] == "valid") is fits, (one, two, row["reason"])
        if fits:
            assert row["thing_made"] == {"id": one, "key": UUIDS[0], "opens": two}
            assert row["event_id"] == one
        else:
            assert row["reason"] in ("contract: data.id is no uuid", "contract: data.opens is no time")


def test_times_of_day_of_avro_are_such_texts(spark: SparkSession) -> None:
    clock = {
        "type": "record",
        "name": "Clock",
        "fields": [{"name": "at", "type": {"type": "int", "logicalType": "time-millis"}}],
    }
    contract = Contract("thing.made", 1, {"type": "object", "properties": {"at": TIME}})
    topic = Topic("things", (contract,), records=Avro(**BY_LOG, schema=text(clock)))
    plain = {**clock, "fields": [{"name": "at", "type": "int"}]}
    rows = decided(spark, {str(n): avro({"at": n}, plain) for n in (0, 36_900_000, 86_399_999)}, topic)
    assert [row["thing_made"]["at"] for row in rows.values()] == ["00:00:00", "10:15:00", "23:59:59.999000"]
