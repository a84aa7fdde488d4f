"""Plain JSON is held to the version that landing reads it by: the newest of its type."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from anabranch.contracts import CloudEvents, Contract, PlainJson, Record, Topic, TypeField
from anabranch.contracts.model.contract import Compatibility
from anabranch.contracts.model.records import plain_key
from anabranch.contracts.sending import RecordCheck
from anabranch.ingest.landing.decoding import UNREADABLE
from anabranch.ingest.landing.decoding._quarantine_reasons import reason

pytestmark = pytest.mark.unit
NOON = datetime(2020, 1, 1, 12, tzinfo=UTC)


def contract(name: str, version: int, *required: str) -> Contract:
    fields = {"kind": {"type": "string"}, "old": {"type": "integer"}, "new": {"type": "integer"}}
    schema = {"type": "object", "required": list(required), "properties": fields}
    return Contract(name, version, schema, Compatibility.NONE)


SEEN, SEEN_SINCE, LOST = contract("a.seen", 1, "old"), contract("a.seen", 2, "new"), contract("a.lost", 1)
ONE_TYPE = Topic("things", (SEEN, SEEN_SINCE), records=PlainJson(id=Record.OFFSET, time=Record.APPEND_TIME))
IN_ANOTHER_ORDER = Topic("things", (SEEN_SINCE, SEEN), records=ONE_TYPE.records)
TWO_TYPES = Topic(
    "things",
    (SEEN, SEEN_SINCE, LOST),
    records=PlainJson(id=Record.OFFSET, time=Record.APPEND_TIME, type=TypeField("kind", {"seen": "a.seen"})),
)


@pytest.mark.parametrize("topic", [ONE_TYPE, IN_ANOTHER_ORDER, TWO_TYPES], ids=["one", "newest first", "two"])
@pytest.mark.parametrize(("data", "wrong"), [({"old": 1}, "new"), ({"new": 1}, None), ({"old": 1, "new": 2}, None)])
def test_a_record_is_held_to_the_newest_version(topic: Topic, data: dict[str, Any], wrong: str | None) -> None:
    content = {"kind": "seen", **data}
    value = json.dumps(content).encode()
    problem = RecordCheck(topic).problem(value, content)
    assert (problem and problem[0]) == wrong
    landed = reason(topic, value, NOON)
    assert landed == (UNREADABLE if wrong is None else f"contract: data.{wrong} is missing")


def test_other_types_are_told_apart_as_before() -> None:
    check = RecordCheck(TWO_TYPES)
    assert check.problem(b"{}", {"kind": "a.lost"}) is None
    problem = check.problem(b"{}", {"kind": "a.found"})
    assert problem is not None
    assert problem[0] == "kind"


KEYED = Topic("things", (LOST,), records=PlainJson(id=Record.KEY, time=Record.APPEND_TIME, subject="kind"))


def test_a_key_that_is_the_id_must_be_there() -> None:
    check = RecordCheck(KEYED)
    assert check.problem(b"{}", {"kind": "x"}, keyed=True) is None
    assert check.problem(b"{}", {"kind": "x"}, keyed=False) == ("key", "is missing, and it is the record's id")
    assert isinstance(KEYED.records, PlainJson)
    assert plain_key(KEYED.records, LOST, {"kind": "x"}) is None, "two records of one subject are no copies"


EVENT = {
    "specversion": "1.0", "id": "1", "source": "/s", "type": "com.example.ThingSeen", "dataschema": "x/2",
    "time": "2020-01-01T10:00:00Z", "data": {"old": 1, "new": 2},
}  # fmt: skip
OTHERS = CloudEvents(types={"com.example.ThingSeen": "a.seen"}, schemas={"x/1": 1, "x/2": 2}, time=Record.APPEND_TIME)


@pytest.mark.parametrize(
    ("changed", "wrong"),
    [
        ({}, None),
        ({"type": "a.seen", "dataschema": SEEN.uri}, None),
        ({"time": None}, None),
        ({"dataschema": "x/1", "data": {"old": 1}}, None),
        ({"dataschema": "x/2", "data": {"old": 1}}, "data.new"),
        ({"dataschema": "x/3"}, "type"),
        ({"type": "com.example.Thing"}, "type"),
        ({"time": "noon"}, "time"),
        ({"dataschema": None}, None),
        ({"dataschema": None, "data": {"old": 1}}, "data.new"),
        ({"specversion": "1.0.2"}, None),
        ({"specversion": "2.0"}, "specversion"),
        ({"subject": None}, None),
        ({"subject": ""}, "subject"),
    ],
)
def test_events_of_others_are_held_to_what_the_topic_says(changed: dict[str, Any], wrong: str | None) -> None:
    topic = Topic("things", (SEEN, SEEN_SINCE), records=OTHERS)
    content = {**EVENT, **changed}
    problem = RecordCheck(topic).problem(json.dumps(content).encode(), content)
    assert (problem and problem[0]) == wrong
    strict = RecordCheck(Topic("things", (SEEN, SEEN_SINCE))).problem(json.dumps(content).encode(), content)
    assert (strict is None) == (content["type"] == "a.seen"), "the default takes ours only"


def test_an_event_that_names_no_schema_is_of_the_newest_version() -> None:
    check = RecordCheck(Topic("things", (SEEN, SEEN_SINCE), records=OTHERS))
    content = {name: value for name, value in EVENT.items() if name != "dataschema"}
    assert check.problem(b"{}", content) is None
    problem = check.problem(b"{}", {**content, "data": {"old": 1}})
    assert problem is not None
    assert problem[0] == "data.new"


TEXT = {"type": "string"}
BILL = {"bill": {**TEXT, "sent_as": "billId"}, "shop": TEXT, "n": {"type": "integer"}}
PAID = Contract("bill.paid", 1, {"type": "object", "properties": BILL})


@pytest.mark.parametrize(
    ("ident", "data", "wrong"),
    [
        ("bill", {"billId": "a"}, None),
        ("bill", {}, ("billId", "is missing, and it is the record's id")),
        ("bill", {"billId": None}, ("billId", "is missing, and it is the record's id")),
        ("bill", {"billId": ""}, ("billId", "is empty, and it is the record's id")),
        (("bill", "n"), {"billId": "", "n": 1}, None),
        (("bill", "n"), {"billId": "a"}, ("n", "is missing, and it is the record's id")),
        ("bill", {"billId": "a", "shop": ""}, ("shop", "is empty, and it is the record's subject")),
        ("bill", {"billId": "a", "shop": None}, None),
        ("n", {"n": 0}, None),
    ],
)
def test_what_has_no_id_for_landing_is_not_sent(ident: Any, data: dict[str, Any], wrong: Any) -> None:
    topic = Topic("bills", (PAID,), records=PlainJson(id=ident, time=Record.APPEND_TIME, subject="shop"))
    value = json.dumps(data).encode()
    assert RecordCheck(topic).problem(value, data) == wrong
    assert (reason(topic, value, NOON) == UNREADABLE) is (wrong is None)


def test_any_schema_of_others_is_taken_if_the_topic_says_so() -> None:
    check = RecordCheck(Topic("things", (SEEN, SEEN_SINCE), records=CloudEvents(OTHERS.types, "any")))
    for schema, wrong in (("what/ever", None), (SEEN_SINCE.uri, None), (SEEN.uri.replace(":1", ":9"), "type")):
        content = {**EVENT, "dataschema": schema}
        problem = check.problem(json.dumps(content).encode(), content)
        assert (problem and problem[0]) == wrong
