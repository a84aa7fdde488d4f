"""A mapping is checked against the contracts when the topic is declared."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from anabranch.contracts import CloudEvents, Contract, Header, PlainJson, Record, TimeField, Topic, TypeField
from anabranch.contracts.fields.decimals import EXACT_DECODER
from anabranch.contracts.model.contract_registry import register
from anabranch.contracts.model.records import python_format
from anabranch.core.errors import BadDefinition, Conflict
from anabranch.core.settings import Settings
from anabranch.ingest.landing.decoding._quarantine_reasons import mapped_moment, reason
from anabranch.operate.doctor._typed_columns import _at
from support.epoch_times import NO_TEXTS, NUMBERS, time_in

pytestmark = pytest.mark.unit
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "orderId": {"type": "string"},
        "number": {"type": "integer"},
        "price": {"type": "number"},
        "at": {"type": "string", "format": "date-time"},
        "on": {"type": "string"},
        "paid": {"type": "boolean"},
        "clock": {"type": "string", "format": "time"},
        "fine": {"type": "string", "format": "decimal", "precision": 38, "scale": 15},
        "finest": {"type": "number", "format": "decimal", "precision": 38, "scale": 16},
        "buyer": {"type": "object", "properties": {"id": {"type": "integer"}}},
    },
}
PLACED, PAID = Contract("order.placed", 1, SCHEMA), Contract("order.paid", 1, SCHEMA)
OFFSET, NOW = Record.OFFSET, Record.APPEND_TIME


@pytest.mark.parametrize(
    "mapping",
    [
        PlainJson(id="orderId", time="at"),
        PlainJson(id=("buyer.id", "number"), time=TimeField("number", unit="ns"), subject="buyer.id"),
        PlainJson(id=Record.KEY, time=NOW, subject=Record.KEY, source="shop"),
        *(PlainJson(id=OFFSET, time=TimeField(path, unit="s")) for path in ("price", "on", "fine")),
        PlainJson(id=OFFSET, time=TimeField("on", format="yyyy-MM-dd'T'HH:mm:ss", zone="America/New_York")),
        PlainJson(
            id=(Record.KEY, Header("run"), "number"), time=NOW, subject=Header("shop"), type=TypeField(Header("t"))
        ),
    ],
)
def test_what_the_contract_has_can_be_mapped(mapping: PlainJson) -> None:
    Topic("orders", (PLACED,), records=mapping)


@pytest.mark.parametrize(
    ("mapping", "part", "says"),
    [
        (PlainJson(id="order", time="at"), "id", "order.placed v1 has no field order"),
        (PlainJson(id="orderId.x", time="at"), "id", "has no field orderId.x"),
        (PlainJson(id="price", time="at"), "id", "price is a number in order.placed v1, not a integer or string"),
        (PlainJson(id=("orderId", "at"), time="at"), "id", "at is a string date-time"),
        (PlainJson(id=(), time="at"), "id", "give a field"),
        (PlainJson(id=NOW, time="at"), "id", "give a field"),
        (PlainJson(id=("orderId", OFFSET), time="at"), "id", "give a field, a Header"),
        (PlainJson(id=Header(""), time="at"), "id", "a header needs a name"),
        (PlainJson(id=OFFSET, time=NOW, subject=Header("")), "subject", "a header needs a name"),
        (PlainJson(id=OFFSET, time=NOW, type=TypeField(Header(""))), "type", "a header needs a name"),
        (PlainJson(id=OFFSET, time=OFFSET), "time", "give a field, or Record.APPEND_TIME"),
        (
            PlainJson(id=OFFSET, time="on"),
            "time",
            "on isn't a date-time in order.placed v1: give its unit or its format",
        ),
        (PlainJson(id=OFFSET, time=TimeField("at", unit="ms")), "time", "has a unit, but is a string date-time"),
        (PlainJson(id=OFFSET, time=TimeField("clock", unit="s")), "time", "has a unit, but is a string"),
        (PlainJson(id=OFFSET, time=TimeField("paid", unit="s")), "time", "has a unit, but is a boolean"),
        (PlainJson(id=OFFSET, time=TimeField("buyer", unit="s")), "time", "has a unit, but is a object"),
        (
            PlainJson(id=OFFSET, time=TimeField("finest", unit="s")),
            "time",
            "finest has a unit, but is a number decimal(38,16) in order.placed v1: use an integer, a number,",
        ),
        (PlainJson(id=OFFSET, time=TimeField("number", unit="h")), "time", "unit 'h' is none of s, ms, us, ns"),
        (PlainJson(id=OFFSET, time=TimeField("number", format="yyyy")), "time", "isn't a plain string"),
        (PlainJson(id=OFFSET, time=TimeField("on", format="EEE, d MMM")), "time", "format 'EEE, d MMM': parts are"),
        (PlainJson(id=OFFSET, time=TimeField("on", format="yyyy", zone="Mars")), "time", "'Mars' is no time zone"),
        (PlainJson(id=OFFSET, time=NOW, subject="buyer"), "subject", "buyer is a object"),
        (PlainJson(id=OFFSET, time=NOW, subject=NOW), "subject", "give a field, a Header, Record.KEY, or None"),
        (PlainJson(id=OFFSET, time=NOW, type=TypeField("number")), "type", "number is a integer"),
        (
            PlainJson(id=OFFSET, time=NOW, type=TypeField("on", {"x": "order.lost"})),
            "type",
            "no event type of the topic",
        ),
    ],
)
def test_a_wrong_mapping_is_refused_when_it_is_declared(mapping: PlainJson, part: str, says: str) -> None:
    with pytest.raises(BadDefinition) as error:
        Topic("orders", (PLACED,), records=mapping)
    assert (error.value.code, error.value.fields["part"]) == ("MAPPING", part)
    assert error.value.what.startswith(f"topic orders: {part}: ")
    assert says in error.value.what


def test_several_event_types_need_a_field_that_names_them() -> None:
    with pytest.raises(BadDefinition, match=r"several event types \(order.paid, order.placed\)"):
        Topic("orders", (PLACED, PAID), records=PlainJson(id="orderId", time="at"))


def test_names_that_differ_in_case_only_are_refused_with_file_contract_and_field(tmp_path: Path) -> None:
    file = tmp_path / "order.placed.v1.json"
    file.write_text('{"name": "order.placed", "version": 1, "schema": {"type": "object", "properties": '
                    '{"orderId": {"type": "string"}, "orderid": {"type": "string"}}}}')  # fmt: skip
    with pytest.raises(BadDefinition) as error:
        Contract.from_file(file)
    assert error.value.what.startswith(f"{file}: order.placed v1: data: orderId and orderid differ in case only")


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        ({"a": {"type": "string", "sent_as": "x'y"}}, 'data.a: sent_as is "x\'y", which no field can be read by'),
        ({"a": {"type": "string", "sent_as": "b"}, "b": {"type": "string"}}, "a and b are both sent as 'b'"),
        ({"a-b": {"type": "string"}}, "names of fields may hold the letters A to Z"),
    ],
)
def test_names_in_records_that_cannot_be_read_are_refused(properties: dict[str, Any], says: str) -> None:
    with pytest.raises(BadDefinition) as error:
        Contract("order.placed", 1, {"type": "object", "properties": properties})
    assert says in error.value.what


def test_a_field_has_one_name_in_the_records_of_a_topic() -> None:
    def contract(name: str, sent: str) -> Contract:
        return Contract(name, 1, {"type": "object", "properties": {"a": {"type": "string", "sent_as": sent}}})

    with pytest.raises(BadDefinition, match=r"data\.a is sent as 'x' in one contract, as 'y' in") as error:
        Topic("orders", (contract("order.placed", "x"), contract("order.paid", "y")))
    assert error.value.code == "FIELD_TYPES_CLASH"


def test_a_version_that_has_landed_keeps_the_names_in_its_records(tmp_path: Path) -> None:
    def topic(sent: str) -> Topic:
        schema = {"type": "object", "properties": {"a": {"type": "string", "sent_as": sent}}}
        return Topic("orders", (Contract("order.placed", 1, schema),))

    settings = Settings(home=tmp_path)
    register(settings, topic("x"))
    register(settings, topic("x"))
    with pytest.raises(Conflict, match="a field is sent by another name") as error:
        register(settings, topic("y"))
    assert error.value.code == "CONTRACT_CHANGED"


def test_the_reason_names_the_part_of_the_mapping_that_is_wrong() -> None:
    """Not one that landing takes: of several parts of an id one may be empty, and what isn't UTF-8 is no subject."""
    noon = datetime(2020, 7, 1, 12, tzinfo=UTC)

    def why(key: bytes | None, value: bytes = b'{"n": -1, "name": ""}', **parts: Any) -> str:
        fields = {"name": {"type": "string"}, "n": {"type": "integer", "minimum": 0}}
        contract = Contract("thing.made", 1, {"type": "object", "properties": fields})
        records = PlainJson(**{"id": Record.OFFSET, "time": Record.APPEND_TIME, **parts})
        return reason(Topic("things", (contract,), records=records), value, noon, key)

    assert why(b"", subject=Record.KEY) == "mapping: subject: the key is empty"
    for key in (None, b"\xff", b"k"):
        assert why(key, subject=Record.KEY) == "contract: data.n is below 0"
    assert why(b"\xff", id=Record.KEY) == "mapping: id: the key is no UTF-8 text"
    assert [why(key, id=Record.KEY) for key in (None, b"")] == ["mapping: id: the record has no key"] * 2
    assert why(b"k", id="name") == "mapping: id: data.name is missing"
    assert why(b"", id=(Record.KEY, "name")) == "contract: data.n is below 0"
    assert why(None, id=(Record.KEY, "name")) == "mapping: id: the record has no key"


def test_formats_are_read_alike_outside_of_the_engine() -> None:
    assert python_format("yyyy-MM-dd'T'HH:mm:ss.SSSXXX") == "%Y-%m-%dT%H:%M:%S.%f%z"
    noon = datetime(2020, 7, 1, 12, tzinfo=UTC)
    berlin = TimeField("on", format="dd.MM.yyyy HH:mm", zone="Europe/Berlin")
    assert mapped_moment(berlin, "01.07.2020 14:00") == noon
    assert [mapped_moment(berlin, value) for value in ("2020-07-01", None, 5)] == [None] * 3
    assert mapped_moment(berlin, "1.7.2020 14:00") is None
    assert mapped_moment(berlin, "01.07.2020 14:0") is None, "the engine wants all digits"
    parts = TimeField("on", format="yyyyMMdd'T'HHmmss.SSSXXX")
    assert [mapped_moment(parts, f"20200701T120000.{digits}Z") for digits in ("0", "000", "0000")] == [noon, noon, None]
    nanos = TimeField("on", format="yyyy-MM-dd HH:mm:ss.SSSSSSSSS")
    assert mapped_moment(nanos, "2020-07-01 12:00:00.123456789") is None, "the engine reads it, strptime doesn't"
    assert mapped_moment(TimeField("n", unit="ns"), int(noon.timestamp()) * 10**9 + 999) == noon
    wrong: tuple[Any, ...] = (True, 2**62, [], None)
    assert [mapped_moment(TimeField("n", unit="s"), value) for value in wrong] == [None] * 4


@pytest.mark.parametrize("unit", NUMBERS)
def test_a_time_since_1970_is_exact_to_the_microsecond_outside_of_the_engine(unit: str) -> None:
    time = TimeField("n", unit=unit)
    for text in NUMBERS[unit]:
        right = time_in(text, unit)
        assert mapped_moment(time, EXACT_DECODER.decode(text)) == right, text
        assert mapped_moment(time, text) == (None if "e" in text.lower() else right), text
    assert [mapped_moment(time, text) for text in NO_TEXTS] == [None] * len(NO_TEXTS)


@pytest.mark.parametrize(
    "events",
    [
        CloudEvents(),
        CloudEvents({"com.example.OrderPlaced": "order.placed"}, {"https://example.com/1": 1}, NOW),
        CloudEvents(schemas="any"),
    ],
)
def test_events_of_others_can_be_named(events: CloudEvents) -> None:
    Topic("orders", (PLACED,), records=events)


@pytest.mark.parametrize(
    ("events", "part", "says"),
    [
        (CloudEvents({"OrderSent": "order.sent"}), "types", "'OrderSent' is named order.sent, which is no event type"),
        (CloudEvents(schemas={"x": 2}), "schemas", "'x' is version 2, which no contract of the topic has"),
        (CloudEvents(schemas={PLACED.uri: 1}), "schemas", "names a contract and its version already"),
        (CloudEvents(schemas="all"), "schemas", "'all' is none: give versions by dataschema, or \"any\""),  # type: ignore[arg-type]
        (CloudEvents(time=OFFSET), "time", "give Record.APPEND_TIME"),
    ],
)
def test_a_wrong_name_for_events_of_others_is_refused(events: CloudEvents, part: str, says: str) -> None:
    with pytest.raises(BadDefinition) as error:
        Topic("orders", (PLACED,), records=events)
    assert (error.value.code, error.value.fields["part"]) == ("MAPPING", part)
    assert says in error.value.what


def test_the_doctor_reads_a_topic_of_several_types_by_one_of_them() -> None:
    mapping = PlainJson(id=OFFSET, time=NOW, type=TypeField("on", {"new": "order.placed", "done": "order.paid"}))
    at = _at(Topic("orders", (PLACED, PAID), records=mapping), "order.paid", 0)
    assert at.contracts == (PAID,)
    assert isinstance(at.records, PlainJson)
    assert at.records.type is not None
    assert at.records.type.names == {"done": "order.paid"}
