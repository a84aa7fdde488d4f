"""Plain JSON with a mapping: what becomes of each record, by the same decoding as records with an envelope."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from anabranch.contracts import Contract, PlainJson, Record, TimeField, Topic, TypeField
from anabranch.core.engine.spark import LIVE
from anabranch.ingest.landing.decoding import decode, identity, raw_frame
from support.things_topic import APPENDED, decided, unexpected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
PAID = Contract(
    "payment.made",
    1,
    {
        "type": "object",
        "required": ["paymentId", "amount"],
        "properties": {
            "paymentId": {"type": "integer"},
            "createdAt": {"type": "integer"},
            "amount": {"type": "integer", "minimum": 0},
            "note": {"type": "string"},
            "customer": {"type": "object", "properties": {"id": {"type": "string"}}},
            "day": {"type": "string"},
            "at": {"type": "string", "format": "date-time"},
        },
    },
)
MAPPING = PlainJson(id="paymentId", time=TimeField("createdAt", unit="ms"), subject="customer.id", source="billing")
PAYMENTS = Topic("payments", (PAID,), records=MAPPING)
NOON = 1_577_880_000_000
GOOD = {"paymentId": 7, "createdAt": NOON, "amount": 5, "customer": {"id": "ann"}}
VALID = None


def raw(**changed: Any) -> bytes:
    return json.dumps({name: value for name, value in {**GOOD, **changed}.items() if value is not ...}).encode()


CASES: dict[str, tuple[bytes | None, str | None]] = {
    "good": (raw(), VALID),
    "spaces around it": (b" \n" + raw() + b"\n ", VALID),
    "a field that nobody declared": (raw(device={"model": [1, 2]}), VALID),
    "no subject": (raw(customer=...), VALID),
    "an empty subject": (raw(customer={"id": ""}), "mapping: subject: data.customer.id is empty"),
    "no id": (raw(paymentId=...), "mapping: id: data.paymentId is missing"),
    "an id that is null": (raw(paymentId=None), "mapping: id: data.paymentId is missing"),
    "an id that is a text": (raw(paymentId="7"), "contract: data.paymentId is no integer"),
    "an id of 30 digits": (raw().replace(b'"paymentId": 7', b'"paymentId": ' + b"7" * 30), "contract: data.paymentId"),
    "no time": (raw(createdAt=...), "mapping: time: data.createdAt is missing or can't be read as ms since 1970"),
    "a time in 1970": (raw(createdAt=5), "absurd_time: before 2000; the topic's earliest_year"),
    "a time in the future": (raw(createdAt=NOON + 7_200_000), "absurd_time: over 1:00:00 ahead"),
    "a time that no timestamp holds": (raw(createdAt=2**62), "mapping: time"),
    "below the minimum": (raw(amount=-1), "contract: data.amount is below 0"),
    "a number for a text": (raw(note=5), "contract: data.note is no string"),
    "a tombstone": (None, None),
    "no bytes": (b"", "not_json"),
    "null": (b"null", "not_json"),
    "a number": (b"3", "not_json"),
    "an array": (b"[" + raw() + b"]", "not_json"),
    "cut off": (raw()[:-1], "not_json"),
    "a brace behind": (raw() + b"}", "not_json"),
    "two records": (raw() + raw(), "not_json"),
    "two records with a comma": (raw() + b"," + raw(), "not_json"),
    "a field behind it": (raw() + b',"x":1', "not_json"),
    "another record as a field behind it": (raw() + b',"data":' + raw(amount=9), "not_json"),
    "null, and a record as a field behind it": (b'null,"data":' + raw(), "not_json"),
    "a record, and out of the object around it": (raw() + b'},"event":{"data":' + raw(amount=9), "not_json"),
    "not UTF-8": (raw(note="x").replace(b"x", b"\xff"), "not_utf8"),
    "the fields of an envelope": (raw(id=1, type="x", data={"paymentId": 9}), VALID),
}


@pytest.mark.parametrize("settings", [{}, LIVE], ids=["compiled", "interpreted"])
def test_every_record_gets_its_decision(spark: SparkSession, settings: Mapping[str, str]) -> None:
    own = spark.newSession()
    for key, value in {"spark.sql.codegen.wholeStage": "false", **settings}.items():
        own.conf.set(key, value)
    rows = decided(own, {name: value for name, (value, _) in CASES.items()}, PAYMENTS)
    assert unexpected(rows, {name: reason for name, (_, reason) in CASES.items()}) == {}
    assert [name for name, row in rows.items() if row["decision"] == "tombstone"] == ["a tombstone"]
    good = rows["good"]
    assert (good["event_id"], good["source"], good["type"], good["subject"]) == ("7", "billing", "payment.made", "ann")
    assert good["event_time"] == good["device_time"] == APPENDED
    assert (good["payment_made"]["amount"], good["contract_version"]) == (5, 1)
    assert good["payment_made"]["customer"] == {"id": "ann"}


def test_without_a_key_there_is_nothing_to_delete(spark: SparkSession) -> None:
    row = decided(spark, {"it": None}, PAYMENTS, key=None)["it"]
    assert (row["decision"], row["reason"]) == ("quarantined", "empty: the record has no value")


def one(spark: SparkSession, mapping: PlainJson, key: bytes | None = b"k", **changed: Any) -> dict[str, Any]:
    """The row of one record, read by another mapping."""
    topic = Topic("payments", (PAID,), records=mapping)
    return decided(spark, {"it": raw(**changed)}, topic, key)["it"]


def test_ids(spark: SparkSession) -> None:
    at = Record.APPEND_TIME
    assert one(spark, PlainJson(id=Record.KEY, time=at))["event_id"] == "k"
    assert one(spark, PlainJson(id=Record.KEY, time=at), key=None)["reason"] == "mapping: id: the record has no key"
    broken = one(spark, PlainJson(id=Record.KEY, time=at), key=b"\xff")
    assert broken["reason"] == "mapping: id: the key is no UTF-8 text"
    assert one(spark, PlainJson(id=Record.OFFSET, time=at))["event_id"] == "0-0"
    several = PlainJson(id=("customer.id", "paymentId"), time=at)
    assert one(spark, several)["event_id"] == '["ann","7"]'
    assert one(spark, several, customer=...)["reason"] == "mapping: id: data.customer.id is missing"
    assert one(spark, several)["source"] == "payments"


def test_times(spark: SparkSession) -> None:
    def at(time: str | TimeField | Record, **changed: Any) -> datetime | None:
        found = one(spark, PlainJson(id="paymentId", time=time), **changed)
        assert (found["event_time"] is None) == (found["reason"] is not None)
        read: datetime | None = found["event_time"]
        return read

    second = int(APPENDED.timestamp())
    assert at(Record.APPEND_TIME) == APPENDED
    assert at("at", at="2020-01-01T13:00:00+01:00") == APPENDED
    assert at("at", at=...) is None
    assert at(TimeField("createdAt", unit="s"), createdAt=second) == APPENDED
    assert at(TimeField("createdAt", unit="us"), createdAt=second * 1_000_000 + 1) == APPENDED + timedelta(
        microseconds=1
    )
    assert at(TimeField("createdAt", unit="ns"), createdAt=second * 10**9 + 1_999) == APPENDED + timedelta(
        microseconds=1
    )
    berlin = TimeField("day", format="yyyy-MM-dd HH:mm:ss", zone="Europe/Berlin")
    assert at(berlin, day="2020-01-01 13:00:00") == APPENDED
    assert at(berlin, day="2020-01-01T13:00:00") is None
    assert at(TimeField("day", format="dd.MM.yyyy'T'HH:mm:ss.SSSXXX"), day="01.01.2020T13:00:00.000+01:00") == APPENDED


def test_types(spark: SparkSession) -> None:
    refunded = Contract("payment.refunded", 1, PAID.schema)
    mapping = PlainJson(id="paymentId", time=Record.APPEND_TIME, type=TypeField("note", {"Paid": "payment.made"}))
    topic = Topic("payments", (PAID, refunded), records=mapping)
    values = {"Paid": raw(note="Paid"), "as it is": raw(note="payment.refunded"), "other": raw(note="lost"),
              "none": raw(note=...)}  # fmt: skip
    rows = decided(spark, values, topic)
    assert [(row["type"], row["reason"]) for row in rows.values()] == [
        ("payment.made", None), ("payment.refunded", None), ("lost", "unknown_type: lost"),
        (None, "mapping: type: data.note is missing or no string"),
    ]  # fmt: skip


RENAMED = Contract(
    "reading.taken",
    1,
    {
        "type": "object",
        "required": ["device_id", "taken"],
        "properties": {
            "device_id": {"type": "string", "sent_as": "device-id"},
            "taken": {"type": "string", "format": "date-time", "sent_as": "time"},
            "channel": {"type": "string", "sent_as": "source"},
            "value": {"type": "number", "sent_as": "Wert °C"},
            "place": {"type": "object", "properties": {"town": {"type": "string", "sent_as": "ort.name"}}},
            "lines": {
                "type": "array",
                "items": {"type": "object", "properties": {"sku": {"type": "string", "sent_as": "s k u"}}},
            },
        },
    },
)
READING = {"device-id": "d1", "time": "2020-01-01T12:00:00Z", "source": "web", "Wert °C": 21.5,
           "place": {"ort.name": "Ulm"}, "lines": [{"s k u": "a"}, {}]}  # fmt: skip
READINGS = {
    "good": (READING, None),
    "no id": ({**READING, "device-id": None}, "mapping: id: data.device-id is missing"),
    "by its own name": ({"device_id": "d1", "taken": READING["time"]}, "mapping: id: data.device-id is missing"),
    "a number for a text": ({**READING, "source": 5}, "contract: data.source is no string"),
    "a number for a text below": ({**READING, "place": {"ort.name": 5}}, "contract: data.place.ort.name is no string"),
    "a text for a number": ({**READING, "Wert °C": "hot"}, "contract: data.Wert °C is no number"),
    "a text with escapes": ({**READING, "source": "5"}, None),
}


@pytest.mark.parametrize("settings", [{}, LIVE], ids=["compiled", "interpreted"])
def test_fields_have_the_names_of_the_contract(spark: SparkSession, settings: Mapping[str, str]) -> None:
    own = spark.newSession()
    for key, value in {"spark.sql.codegen.wholeStage": "false", **settings}.items():
        own.conf.set(key, value)
    topic = Topic("readings", (RENAMED,), records=PlainJson(id="device_id", time="taken", subject="place.town"))
    rows = decided(own, {name: json.dumps(body).encode() for name, (body, _) in READINGS.items()}, topic)
    assert {name: row["reason"] for name, row in rows.items()} == {name: why for name, (_, why) in READINGS.items()}
    good = rows["good"]
    assert (good["event_id"], good["subject"], good["event_time"]) == ("d1", "Ulm", APPENDED)
    assert good["reading_taken"] == {
        "device_id": "d1", "taken": APPENDED, "channel": "web", "value": 21.5, "place": {"town": "Ulm"},
        "lines": [{"sku": "a"}, {"sku": None}],
    }  # fmt: skip
    frame = raw_frame(own, topic, [{"partition": 0, "offset": 0, "append_time": 0, "key": None,
                                    "value": json.dumps(READING).encode()}])  # fmt: skip
    (told,) = frame.select(*(column.alias(name) for name, column in identity(topic).items())).collect()
    assert told["event_id"] == "d1"


def test_fields_of_events_are_renamed_too(spark: SparkSession) -> None:
    topic = Topic("readings", (RENAMED,))
    body = {"specversion": "1.0", "id": "1", "source": "/s", "type": "reading.taken", "time": READING["time"]}
    row = decided(spark, {"it": json.dumps({**body, "data": READING}).encode()}, topic)["it"]
    assert (row["reason"], row["reading_taken"]["channel"]) == (None, "web")


@pytest.mark.parametrize("made_of", ["paymentId", ("customer.id", "paymentId"), Record.KEY, Record.OFFSET])
def test_the_identity_of_bytes_is_that_of_the_decoding(spark: SparkSession, made_of: Any) -> None:
    """The doctor holds duplicates, whose data isn't typed, to it."""
    topic = Topic("payments", (PAID,), records=PlainJson(id=made_of, time=Record.APPEND_TIME))
    appended = int(APPENDED.timestamp() * 1_000_000)
    record = {"partition": 3, "offset": 9, "append_time": appended, "key": b"k", "value": raw()}
    frame = raw_frame(spark, topic, [record])
    (told,) = frame.select(*(column.alias(name) for name, column in identity(topic).items())).collect()
    (row,) = decode(frame, topic).collect()
    assert (told["event_id"], told["source"]) == (row["event_id"], row["source"])
    assert told["event_id"]
