"""CloudEvents in binary mode: the envelope is in the headers. Records are made by the CloudEvents SDK, by hand only
where it refuses to make what is wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest
from anabranch.contracts import Contract, Header, PlainJson, Record, Topic, TypeField
from anabranch.core.engine.spark import LIVE
from anabranch.ingest.landing.decoding import decode, identity, raw_frame, with_reasons
from cloudevents.core.bindings.kafka import to_binary, to_structured
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from support.things_topic import APPENDED, BASE, MADE, TOPIC, unexpected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
Sent = tuple[Sequence[tuple[str, bytes | None]], bytes | None]
ATTRIBUTES = {**{name: value for name, value in BASE.items() if name != "data"}, "time": APPENDED}
DATA = {"origin": "JFK", "n": 7, "text": "12", "at": "2020-01-01T10:00:00+02:00"}


def by_sdk(data: Mapping[str, Any] = DATA, **changed: Any) -> Sent:
    given = {**ATTRIBUTES, "datacontenttype": "application/json", **changed}
    event = CloudEvent({name: value for name, value in given.items() if value is not None}, dict(data))
    message = to_binary(event, JSONFormat())
    return list(message.headers.items()), message.value


def by_hand(value: bytes | None = None, **changed: bytes | str | None) -> Sent:
    """The SDK's record with other headers (None: without it) and another value."""
    headers, made = by_sdk()
    names = {name.replace("__", "-"): text for name, text in changed.items()}
    kept = [(name, text) for name, text in headers if name not in names]
    kept += [(n, t.encode() if isinstance(t, str) else t) for n, t in names.items() if t is not None]
    return kept, made if value is None else value


def whole_event() -> Sent:
    message = to_structured(CloudEvent(ATTRIBUTES, DATA), JSONFormat())
    return list(message.headers.items()), message.value


DOUBLE = [("ce_id", b"first"), *by_hand(ce_id="last")[0]]
GOOD = json.dumps(DATA).encode()
CASES: dict[str, tuple[Sent, str | None]] = {
    "good": (by_sdk(), None),
    "structured, by its content type": (whole_event(), None),
    "without a subject": (by_sdk(subject=None), None),
    "without a content type": (by_hand(content__type=None), None),
    "another JSON": (by_hand(content__type="application/vnd.shop+json; charset=utf-8"), None),
    "an id like a number": (by_sdk(id="17"), None),
    "an id in two headers": ((DOUBLE, GOOD), None),
    "a field called like the envelope": (by_sdk({**DATA, "id": 5, "type": [1]}), None),
    "an attribute of somebody": (by_hand(ce_traceparent="00-1"), None),
    "no id": (by_hand(ce_id=None), "envelope: header ce_id is missing"),
    "an empty source": (by_hand(ce_source=""), "envelope: header ce_source is missing"),
    "an empty subject": (by_hand(ce_subject=""), "envelope: header ce_subject is missing"),
    "an id that is no text": (by_hand(ce_id=b"\xff"), "envelope: header ce_id is missing"),
    "no version": (by_hand(ce_specversion=None), "envelope: header ce_specversion is not 1.0"),
    "no time": (by_hand(ce_time=None), "envelope: header ce_time is missing or unreadable"),
    "a time that is none": (by_hand(ce_time="yesterday"), "envelope: header ce_time is missing or unreadable"),
    "a time of long ago": (by_hand(ce_time="1999-01-01T00:00:00Z"), "absurd_time: before 2000"),
    "an unknown type": (by_hand(ce_type="thing.lost"), "unknown_type: thing.lost"),
    "an unknown contract": (by_hand(ce_dataschema="urn:x"), "unknown_contract: urn:x"),
    "what breaks the contract": (by_sdk({"origin": "JFK", "n": -1}), "contract: data.n is below 0"),
    "a number for a text": (by_sdk({**DATA, "text": 12}), "contract: data.text is no string"),
    "text": (by_hand(b"hello", content__type="text/plain"), "not_json: the value"),
    "JSON that is called text": (by_hand(content__type="text/plain"), "not_json: content-type says"),
    "cut off": (by_hand(GOOD[:-1]), "not_json"),
    "an array": (by_hand(b"[1]"), "not_json"),
    "not UTF-8": (by_hand(b'{"origin": "\xff"}'), "not_utf8"),
    "a field behind it": (by_hand(GOOD + b',"id":"other"'), "not_json"),
    "out of the object around it": (by_hand(GOOD + b'},"event":{"data":' + GOOD), "not_json"),
}


def decided(spark: SparkSession, topic: Topic, sent: Mapping[str, Sent]) -> dict[str, dict[str, Any]]:
    appended = int(APPENDED.timestamp() * 1_000_000)
    records = [
        {"partition": 0, "offset": n, "append_time": appended, "key": b"k", "value": value, "headers": headers}
        for n, (headers, value) in enumerate(sent.values())
    ]
    rows = with_reasons(decode(raw_frame(spark, topic, records), topic).toArrow(), topic).to_pylist()
    names = list(sent)
    return {names[row["offset"]]: row for row in rows}


@pytest.mark.parametrize("settings", [{}, LIVE], ids=["compiled", "interpreted"])
def test_every_record_gets_its_decision(spark: SparkSession, settings: Mapping[str, str]) -> None:
    own = spark.newSession()
    for key, value in {"spark.sql.codegen.wholeStage": "false", **settings}.items():
        own.conf.set(key, value)
    sent = {name: sent for name, (sent, _) in CASES.items()}
    sent |= {"no value": (by_sdk()[0], None), "a tombstone": ((("trace", b"1"),), None)}
    rows = decided(own, TOPIC, sent)
    expected = {name: reason for name, (_, reason) in CASES.items()}
    assert (
        unexpected(rows, {**expected, "no value": "empty: the record has no value, though", "a tombstone": None}) == {}
    )
    assert rows["a tombstone"]["decision"] == "tombstone", "its headers are those of no event"
    good, whole = rows["good"], rows["structured, by its content type"]
    assert (good["event_id"], good["source"], good["type"]) == ("i-1", "/s", "thing.made")
    assert good["event_time"] == APPENDED
    assert (good["thing_made"]["n"], good["thing_made"]["text"]) == (7, "12")
    ignored = {"offset", "value", "headers"}
    assert {k: v for k, v in good.items() if k not in ignored} == {k: v for k, v in whole.items() if k not in ignored}
    assert rows["an id like a number"]["event_id"] == "17"
    assert rows["an id in two headers"]["event_id"] == "last"
    assert good["headers"] == [{"key": name, "value": text} for name, text in CASES["good"][0][0]]


def test_what_names_an_event_is_read_from_where_it_is(spark: SparkSession) -> None:
    records = [
        {"partition": 0, "offset": n, "append_time": 0, "key": None, "value": value, "headers": headers}
        for n, (headers, value) in enumerate([by_sdk(id="of headers"), whole_event(), (None, GOOD)])
    ]
    named = raw_frame(spark, TOPIC, records).select("offset", *(c.alias(n) for n, c in identity(TOPIC).items()))
    found = {row["offset"]: (row["event_id"], row["source"]) for row in named.collect()}
    assert found == {0: ("of headers", "/s"), 1: ("i-1", "/s"), 2: (None, None)}


PAID = Contract("payment.made", 1, {"type": "object", "properties": {"n": {"type": "integer"}}})
BACK = Contract("payment.returned", 1, {"type": "object", "properties": {"n": {"type": "integer"}}})
NAMED = TypeField(Header("kind"), {"Paid": "payment.made"})


def one(
    spark: SparkSession,
    mapping: PlainJson,
    headers: Sequence[tuple[str, bytes | None]] | None,
    value: bytes = b'{"n": 1}',
) -> dict[str, Any]:
    topic = Topic("payments", (PAID, BACK) if mapping.type else (PAID,), records=mapping)
    return decided(spark, topic, {"it": (headers, value)})["it"]  # type: ignore[dict-item]


def test_plain_json_may_be_mapped_from_headers(spark: SparkSession) -> None:
    mapping = PlainJson(id=Header("event-id"), time=Record.APPEND_TIME, type=NAMED, subject=Header("shop"))
    row = one(spark, mapping, [("event-id", b"e-1"), ("kind", b"Paid"), ("shop", b"Rome"), ("other", None)])
    assert (row["event_id"], row["type"], row["subject"], row["reason"]) == ("e-1", "payment.made", "Rome", None)
    row = one(spark, mapping, [("event-id", b"e-2"), ("kind", b"payment.returned")])
    assert (row["event_id"], row["type"], row["subject"], row["reason"]) == ("e-2", "payment.returned", None, None)
    for headers, reason in (
        (None, "mapping: type: header kind is missing"),
        ([("kind", b"Paid")], "mapping: id: header event-id is missing"),
        ([("kind", b"Paid"), ("event-id", b"\xff")], "mapping: id: header event-id is missing"),
        ([("kind", b"Stolen"), ("event-id", b"1")], "unknown_type: Stolen"),
        ([("kind", b"Paid"), ("event-id", b"1"), ("shop", b"")], "mapping: subject: header shop is empty"),
    ):
        assert one(spark, mapping, headers)["reason"].startswith(reason)


def test_an_id_may_be_made_of_key_header_and_field(spark: SparkSession) -> None:
    mapping = PlainJson(id=(Record.KEY, Header("run"), "n"), time=Record.APPEND_TIME)
    assert one(spark, mapping, [("run", b"7")])["event_id"] == '["k","7","1"]'
    assert one(spark, mapping, None)["reason"] == "mapping: id: header run is missing"
    assert one(spark, mapping, [("run", b"7")], b"{}")["reason"] == "mapping: id: data.n is missing"


def test_the_rules_of_a_topic_see_one_version_of_a_contract(spark: SparkSession) -> None:
    """An event in binary mode that names no contract follows the newest, like any other."""
    row = decided(spark, TOPIC, {"it": by_hand(ce_dataschema=None)})["it"]
    assert (row["reason"], row["contract_version"]) == (None, MADE.version)
