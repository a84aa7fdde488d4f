"""Bytes in, decision out: one table of records that were made to be misread, decided in one job."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from anabranch.contracts import Contract, Topic
from anabranch.core.engine.spark import LIVE
from anabranch.ingest.landing.decoding._quarantine_reasons import UNREADABLE
from anabranch_samples import _bad_bytes
from support.things_topic import APPENDED, BASE, MADE, PRICED, decided, unexpected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

VALID = None
GONE = object()


def event(**changed: Any) -> bytes:
    body = {name: value for name, value in {**BASE, **changed}.items() if value is not GONE}
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()


def data(**changed: Any) -> bytes:
    return event(data={name: value for name, value in {**BASE["data"], **changed}.items() if value is not GONE})


def raw(text: str) -> bytes:
    """A field that Python would not write: ``text`` stands among those of the data."""
    return event().replace(b'"n":1', b'"n":1,' + text.encode("utf-8", "surrogatepass"))


GOOD = event()
HOSTILE = (
    "'); DROP TABLE flights; --", "{{ 7*7 }}{% raw %}", "../../etc/passwd", "<script>alert(1)</script>", "[red]x[/]",
    "${jndi:ldap://127.0.0.1/x}", "`touch /tmp/pwned`", "a\u0000b", "=1+1", "\u202eevil", "null", "[1, 2]x", " ",
)  # fmt: skip
LINE = {"n": 1, "sku": "a", "on": "2013-01-31", "at": "2013-01-01T00:00:00Z", "codes": ["x"]}
BAD_IN_LINES: dict[str, tuple[Any, ...]] = {
    "sku": (12, 1.5, True, {}, ["a"]),
    "on": ("2013", "2013-02-30", "0000-01-01", "", 15_000),
    "at": ("2013", "now", 1_357_000_000),
    "codes": ("x", [1], [None]),
}
BEYOND_DOUBLES = {"1e400": "1e400", "-1e999": "-1e999", "a one and 400 zeros": "1" + 400 * "0"}
CASES: dict[str, tuple[bytes | None, str | None]] = {
    "good": (GOOD, VALID),
    "spaces around it": (b" \n" + GOOD + b"\r\n ", VALID),
    "extra fields": (data(zzz={"deep": [1]}, other="x"), VALID),
    "a field that is another type's, as a text": (data(price="cheap"), VALID),
    "a field that is another type's, as a fraction": (data(price=1.5), VALID),
    "no dataschema": (event(dataschema=GONE), VALID),
    "null for an optional field": (data(x=None, at=None, on=None, tags=None, where=None), VALID),
    "a tombstone": (None, None),
    "no bytes": (b"", "not_json"),
    "an empty array": (b"[]", "not_json"),
    "the event in an array": (b"[" + GOOD + b"]", "not_json"),
    "null": (b"null", "not_json"),
    "a text": (b'"x"', "not_json"),
    "cut off": (GOOD[:-1], "not_json"),
    "garbage behind": (GOOD + b" garbage", "not_json"),
    "a brace behind": (GOOD + b"}", "not_json"),
    "two events": (GOOD + GOOD, "not_json"),
    "two events with a comma": (GOOD + b"," + GOOD, "not_json"),
    "a field behind the event": (GOOD + b',"x":1', "not_json"),
    "another event as a field behind it": (GOOD.replace(b'"n":1', b'"n":-1') + b' , "event":' + GOOD, "not_json"),
    "a number, and an event as a field behind it": (b'1,"event":' + GOOD, "not_json"),
    "data before the envelope": (b'{"data":{"origin":"JFK","n":1},' + event(data=GONE)[1:], VALID),
    "single quotes": (GOOD.replace(b'"', b"'"), "not_json"),
    "a byte order mark": (b"\xef\xbb\xbf" + GOOD, "not_json"),
    "UTF-16": (GOOD.decode().encode("utf-16-le"), "not_json"),
    "a comment": (raw("/* c */"), "not_json"),
    "a line break in a text": (GOOD.replace(b"thing-1", b"thing\n1"), "not_json"),
    "NaN": (raw('"x":NaN'), "not_json"),
    "invalid UTF-8 in a text": (GOOD.replace(b"JFK", b"J\xc3\x28"), "not_utf8"),
    "invalid UTF-8 in an unknown field": (raw('"zz":"\ud800"'), "not_utf8"),
    "20,000 deep": (b'{"data":' * 20_000 + b"1" + b"}" * 20_000, "not_json"),
    "20,000 deep in an unknown field": (raw('"zz":' + "[" * 20_000 + "]" * 20_000), "not_json"),
    "a megabyte of text": (data(text="y" * 1_000_000), VALID),
    "a name twice: the last one counts": (raw('"n":2'), VALID),
    "a name twice, the last one a text": (raw('"n":"2"'), "contract: data.n is no integer"),
    "a name twice, the first one a text": (
        event().replace(b'"n":1', b'"n":"2","n":1'),
        f"{UNREADABLE}; data.n is there twice",
    ),
    "NUL in a text": (data(text="a\u0000b"), VALID),
    "an id that is missing": (event(id=GONE), "envelope: id is missing"),
    "an id that is empty": (event(id=""), "envelope: id is missing"),
    "an id that is a number": (event(id=5), "envelope: id is no string"),
    "an id of digits": (event(id="5"), VALID),
    "a source that is null": (event(source=None), "envelope: source is missing"),
    "a source that is an object": (event(source={"a": 1}), "envelope: source is no string"),
    "no subject": (event(subject=GONE), VALID),
    "a subject that is null": (event(subject=None), VALID),
    "a subject that is empty": (event(subject=""), "envelope: subject is missing"),
    "a subject that is an array": (event(subject=[1]), "envelope: subject is no string"),
    "specversion 2": (event(specversion="2.0"), "envelope: specversion"),
    "no specversion": (event(specversion=GONE), "envelope: specversion"),
    "an unknown type": (event(type="thing.teleported"), "unknown_type: thing.teleported"),
    "a type in capitals": (event(type="Thing.Made"), "unknown_type"),
    "an unknown version": (event(dataschema=MADE.uri[:-1] + "99"), "unknown_contract: urn:"),
    "the contract of another type": (event(dataschema=PRICED.uri, data={"origin": 5}), "unknown_contract"),
    "no time": (event(time=GONE), "envelope: time"),
    "a number for the time": (event(time=1_577_880_000), "envelope: time"),
    "a date for the time": (event(time="2020-01-01"), "envelope: time"),
    "a time without an offset": (event(time="2020-01-01T12:00:00"), "envelope: time"),
    "a time with a region": (event(time="2020-01-01T12:00:00 UTC+00:00"), "envelope: time"),
    "a leap in February": (event(time="2019-02-29T12:00:00Z"), "envelope: time"),
    "senttime unreadable": (event(senttime="soon"), "envelope: senttime"),
    "receivedtime unreadable": (event(receivedtime=5), "envelope: receivedtime"),
    "exactly the future bound": (event(time="2020-01-01T13:00:00Z"), VALID),
    "a microsecond beyond it": (event(time="2020-01-01T13:00:00.000001Z"), "absurd_time: over 1:00:00"),
    "beyond, but by a clock that is": (event(time="2020-01-03T12:00:00Z", senttime="2020-01-03T12:00:00Z"), VALID),
    "received in the future": (event(receivedtime="2020-01-01T13:00:01Z"), "absurd_time: over"),
    "the first moment that counts": (event(time="2000-01-01T00:00:00Z"), VALID),
    "the last that doesn't": (event(time="1999-12-31T23:59:59.999999Z"), "absurd_time: before 2000"),
    "clocks at both ends of time": (
        event(senttime="9999-12-31T23:59:59Z", receivedtime="0001-01-01T00:00:00Z"),
        "absurd_time",
    ),
    "no data": (event(data=GONE), "contract: data is missing"),
    "data in an array": (event(data=[]), "contract: data is missing"),
    "data in a text": (event(data="{}"), "contract: data is missing"),
    "a required field missing": (data(origin=GONE), "contract: data.origin is missing"),
    "a required field null": (data(origin=None), "contract: data.origin is missing"),
    "a required field empty": (data(origin=""), "contract: data.origin doesn't match"),
    "an object for a text": (data(origin={"a": ["JFK"]}), "contract: data.origin is no string"),
    **{
        f"an object with {name} in it for a text": (raw(text), "contract: data.")
        for name, mark in {"U+2028": "\u2028", "U+2029": "\u2029", "U+0085": "\u0085"}.items()
        for text in (f'"text":{{"a":"x{mark}y"}}', f'"tags":["a",["x{mark}y"]]')
    },
    "a number and a line break for a text": (data(text="5\n"), VALID),
    "a number for a text": (data(text=5), "contract: data.text is no string"),
    "true for a text": (data(text=True), "contract: data.text is no string"),
    "a number beyond doubles for a text": (raw('"text":1e999'), "contract: data.text is no string"),
    "a number beyond doubles for an id": (GOOD.replace(b'"i-1"', b"-1e999"), "envelope: id is no string"),
    "the text Infinity, in quotes": (data(text='"Infinity"'), VALID),
    "digits for a text": (data(text="5"), VALID),
    "a number for a text, a text of its name beside": (data(text=5, zz={"text": "a"}), "contract: data.text is no"),
    "a number for a text, its name in a text": (data(text=5, zz='"text":"a'), "contract: data.text is no string"),
    "a line break against the pattern": (data(origin="JFK\n"), "contract: data.origin doesn't match"),
    "none of the enum": (data(size="M"), "contract: data.size is none of"),
    "below the minimum": (data(n=-1), "contract: data.n is below 0"),
    "above the maximum": (data(n=2**62 + 1), "contract: data.n is above"),
    "a text for an integer": (data(n="5"), "contract: data.n is no integer"),
    "5.0 for an integer": (data(n=5.0), "contract: data.n is no integer"),
    "1e3 for an integer": (event().replace(b'"n":1', b'"n":1e3'), "contract: data.n is no integer"),
    "more than 64 bits": (data(n=2**63), "contract: data.n is no integer"),
    "an integer for a number": (data(x=5), VALID),
    "a text for a number": (data(x="1.5"), "contract: data.x is no number"),
    "the text NaN for a number": (data(x="NaN"), "contract: data.x is no number"),
    "the largest double": (raw('"x":-1.7976931348623157e308'), VALID),
    "a number that rounds to zero": (raw('"x":1e-400'), VALID),
    "numbers in an array and a map": (data(shares=[1, 2.5], rates={"a": 1e308, "b": 3}), VALID),
    **{
        f"{what} for {where}": (raw(text.replace("X", number)), f"contract: {path}")
        for what, number in BEYOND_DOUBLES.items()
        for where, (text, path) in {
            "a number": ('"x":X', "data.x is beyond"),
            "a number in an array": ('"shares":[1.5,X]', "data.shares holds"),
            "a number in a map": ('"rates":{"a":1,"b":X}', "data.rates['b'] is beyond"),
            "a number in an array of objects": ('"lines":[{"n":1},{"x":X}]', "data.lines holds"),
        }.items()
    },
    "a number for a truth": (data(ok=1), "contract: data.ok is no boolean"),
    "a text for a truth": (data(ok="true"), "contract: data.ok is no boolean"),
    "a time with an offset": (data(at="2013-01-01T10:00:00.123456+05:30"), VALID),
    "a year for a time": (data(at="2013"), "contract: data.at is no date-time"),
    "a date for a data time": (data(at="2013-01-01"), "contract: data.at is no date-time"),
    "a number for a data time": (data(at=1357034400), "contract: data.at is no date-time"),
    "a word for a data time": (data(at="now"), "contract: data.at is no date-time"),
    "a date": (data(on="2013-01-31"), VALID),
    "a year for a date": (data(on="2013"), "contract: data.on is no date"),
    "a number for a date": (data(on=15_000), "contract: data.on is no date"),
    "a day that isn't": (data(on="2013-02-30"), "contract: data.on is no date"),
    "an array of texts": (data(tags=["a", "5", ""]), VALID),
    "a text for an array": (data(tags="a"), "contract: data.tags is no array"),
    "a number among texts": (data(tags=["a", 5]), "contract: data.tags holds"),
    "null among texts": (data(tags=[None]), "contract: data.tags holds"),
    "a text among integers": (data(counts=[1, "2"]), "contract: data.counts"),
    "a year among times": (data(stamps=["2013-01-01T00:00:00Z", "2013"]), "contract: data.stamps holds"),
    "an array of objects": (data(lines=[{"n": 1}, {}]), VALID),
    "a text in an array of objects": (data(lines=[{"n": "x"}]), "contract: data.lines holds"),
    "all fields in an array of objects": (data(lines=[LINE, {**LINE, "sku": "12"}]), VALID),
    "nulls in an array of objects": (data(lines=[{"n": None, "sku": None, "on": None, "codes": None}]), VALID),
    **{
        f"{name} {value!r} in an array of objects": (data(lines=[LINE, {**LINE, name: value}]), "contract: data.lines")
        for name, values in BAD_IN_LINES.items()
        for value in values
    },
    "null among objects": (data(lines=[LINE, None]), "contract: data.lines holds"),
    "arrays of texts in an array": (data(grid=[["a", "12"], []]), VALID),
    "a number among texts in an array in an array": (data(grid=[["a"], [12]]), "contract: data.grid holds"),
    "null in an array in an array": (data(grid=[["a"], [None]]), "contract: data.grid holds"),
    "an object": (data(where={"city": "Rome", "since": "2013-01-01"}), VALID),
    "an object that lacks a field": (data(where={}), "contract: data.where.city is missing"),
    "a text for an object": (data(where="Rome"), "contract: data.where is no object"),
    "a number in an object": (data(where={"city": 5}), "contract: data.where.city is no string"),
    "the year 0": (data(on="0000-01-01"), "contract: data.on is no date"),
    "a year in an object": (data(where={"city": "Rome", "since": "2013"}), "contract: data.where.since is no date"),
    **{f"hostile subject {text!r}": (event(id=text, subject=text, source=text), VALID) for text in HOSTILE},
    **{f"hostile type {text!r}": (event(type=text), "unknown_type") for text in HOSTILE},
    **{f"hostile data {text!r}": (data(origin=text), "contract: data.origin") for text in HOSTILE},
}


@pytest.fixture(scope="module", params=[{}, LIVE], ids=["compiled", "interpreted"])
def rows(spark: SparkSession, request: pytest.FixtureRequest) -> dict[str, dict[str, Any]]:
    """Decided as a stream that catches up does it, and as one that runs on and on."""
    own = spark.newSession()
    for key, value in {"spark.sql.codegen.wholeStage": "false", **request.param}.items():
        own.conf.set(key, value)
    return decided(own, {name: value for name, (value, _) in CASES.items()})


def test_every_record_gets_the_decision_that_it_deserves(rows: dict[str, dict[str, Any]]) -> None:
    assert unexpected(rows, {name: reason for name, (_, reason) in CASES.items()}) == {}
    assert rows["a tombstone"]["decision"] == "tombstone"
    assert all((row["decision"] == "quarantined") == (row["reason"] is not None) for row in rows.values())


def test_a_record_that_is_no_event_keeps_its_bytes_and_nothing_typed(rows: dict[str, dict[str, Any]]) -> None:
    typed = ("event_id", "source", "event_time", "device_time", "contract_version", "thing_made", "event_date")
    for name, row in rows.items():
        assert (row["value"], row["key"], row["append_time"]) == (CASES[name][0], b"k", APPENDED)
        if row["decision"] != "valid":
            assert [row[column] for column in typed] == [None] * len(typed), name


def test_what_is_read_is_what_was_sent(rows: dict[str, dict[str, Any]]) -> None:
    def read(name: str) -> dict[str, Any]:
        return {k: v for k, v in rows[name]["thing_made"].items() if v is not None}

    assert read("good") == {"origin": "JFK", "n": 1}
    assert read("a name twice: the last one counts")["n"] == 2
    assert read("a time with an offset")["at"] == datetime(2013, 1, 1, 4, 30, 0, 123456, tzinfo=UTC)
    assert str(read("an object")["where"]) == "{'city': 'Rome', 'since': datetime.date(2013, 1, 1)}"
    assert read("an array of texts")["tags"] == ["a", "5", ""]
    assert read("NUL in a text")["text"] == "a\u0000b"
    assert rows["beyond, but by a clock that is"]["event_time"] == APPENDED
    for text in HOSTILE:
        row = rows[f"hostile subject {text!r}"]
        assert (row["subject"], row["source"], row["event_id"]) == (text, text, text)


FLIGHT = json.dumps(
    {**BASE, "data": {"origin": "JFK", "n": 1, "flight": 1}}, separators=(",", ":"), ensure_ascii=False
).encode()


def test_every_fault_of_the_samples_ends_in_quarantine(spark: SparkSession) -> None:
    schema = {**MADE.schema["properties"], "flight": {"type": "integer", "minimum": 1}}
    topic = Topic("things", (Contract("thing.made", 1, {**MADE.schema, "properties": schema}),))
    makers = (_bad_bytes.malformed, _bad_bytes.broken_contract, _bad_bytes.absurd_time)
    made = {f"{make.__name__} {n}": make(FLIGHT, np.random.default_rng(n)) for make in makers for n in range(50)}
    assert len({value for value in made.values() if value}) > 25
    found = decided(spark, {**made, "good": FLIGHT}, topic, key=None)
    assert found.pop("good")["decision"] == "valid"
    assert {name for name, row in found.items() if row["decision"] != "quarantined"} == set()
    kinds = {name.split()[0]: set() for name in made}  # type: dict[str, set[str]]
    for name, row in found.items():
        kinds[name.split()[0]].add(row["reason"].split(":")[0])
    assert kinds == {
        "malformed": {"empty", "not_utf8", "not_json"},
        "broken_contract": {"contract", "envelope", "unknown_type", "unknown_contract"},
        "absurd_time": {"absurd_time", "envelope"},
    }


NAMES = {"blank": " blank", "star": "*", "slash": "a/b", "plain": "plain"}
RENAMED = Contract("thing.named", 1, {"type": "object", "properties": {
    **{name: {"type": "integer", "sent_as": sent} for name, sent in NAMES.items() if name != "slash"},
    "slash": {"type": "string", "sent_as": NAMES["slash"]},
    "inner": {"type": "object", "sent_as": "* ", "properties": {"blank": {"type": "integer", "sent_as": " b"}}},
}})  # fmt: skip
TEXT_OF_IT = Contract("thing.retold", 1, {"type": "object", "properties": {"other": {"type": "integer"}}})
NAMED: dict[str, tuple[str, str | None]] = {
    "all of them": (r'{" blank":1,"*":2,"a/b":"12","plain":3,"* ":{" b":4}}', VALID),
    "an escaped slash": (r'{"a\/b":"12"}', VALID),
    "another type for another event's field": (r'{"other":"x"}', VALID),
    "the same, and a null": (r'{"other":"x"," blank":null,"*":null}', VALID),
    "a text behind a name with a blank": (r'{" blank":"x"}', "contract: data. blank is no integer"),
    "a text behind a star": (r'{"*":"x"}', "contract: data.* is no integer"),
    "a text behind a blank inside": (r'{"* ":{" b":"x"}}', "contract: data.* . b is no integer"),
    "a text": (r'{"plain":"x"}', "contract: data.plain is no integer"),
    "a number behind an escaped slash": (r'{"a\/b":12}', "contract: data.a/b is no string"),
    "a number behind a slash": (r'{"a/b":12}', "contract: data.a/b is no string"),
}


def test_no_value_is_lost_whatever_its_name_in_the_records_is(spark: SparkSession) -> None:
    topic = Topic("things", (RENAMED, TEXT_OF_IT))
    body = {**BASE, "type": RENAMED.name, "data": "HERE"}
    del body["dataschema"]
    values = {name: json.dumps(body).replace('"HERE"', text).encode() for name, (text, _) in NAMED.items()}
    rows = decided(spark, values, topic)
    assert unexpected(rows, {name: reason for name, (_, reason) in NAMED.items()}) == {}
    assert rows["all of them"]["thing_named"] == {
        "blank": 1, "star": 2, "plain": 3, "slash": "12", "inner": {"blank": 4},
    }  # fmt: skip
