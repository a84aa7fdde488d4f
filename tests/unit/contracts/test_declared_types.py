"""What is declared with a value of another type is refused where it is declared, in words of the declaration."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from anabranch.contracts import (
    Avro,
    CloudEvents,
    Contract,
    Header,
    PlainJson,
    Protobuf,
    Raw,
    Record,
    TimeField,
    Topic,
    TypeField,
)
from anabranch.core.errors import BadDefinition

pytestmark = pytest.mark.unit
FIELDS = {"id": {"type": "string"}, "at": {"type": "string", "format": "date-time"}, "text": {"type": "string"}}
MADE = Contract("order.placed", 1, {"type": "object", "properties": FIELDS})
NOW = Record.APPEND_TIME


def mapped(**parts: Any) -> PlainJson:
    return PlainJson(**{"id": "id", "time": "at", **parts})


def events(**parts: Any) -> CloudEvents:
    return CloudEvents(**parts)


def avro(schema: Any) -> Avro:
    return Avro(id="id", time=NOW, schema=schema)


def raw(form: Any) -> Raw:
    return Raw(id=Record.OFFSET, time=NOW, form=form)


def time(*given: Any, **parts: Any) -> TimeField:
    return TimeField(*given, **parts)


@pytest.mark.parametrize(
    ("records", "part", "says"),
    [
        (mapped(id=["id"]), "id", "['id']: give a field, a Header, Record.KEY, several of these as a tuple"),
        (mapped(id=5), "id", "5: give a field"),
        (mapped(id=None), "id", "None: give a field"),
        (mapped(id=("id", None)), "id", "None: give a field"),
        (mapped(id=Header(b"id")), "id", "Header(name=b'id'): give a field"),  # type: ignore[arg-type]
        (mapped(time=None), "time", "None: give a field, a TimeField, or Record.APPEND_TIME"),
        (mapped(time=timedelta(0)), "time", "datetime.timedelta(0): give a field"),
        (mapped(time=time(5)), "time", "5 is no path of a field"),
        (mapped(time=time("text", unit=["s"])), "time", "unit ['s'] is no text"),
        (mapped(time=time("text", format=5)), "time", "format 5 is no text"),
        (mapped(type="text"), "type", "'text': give a TypeField, or None"),
        (mapped(type=TypeField(5)), "type", "give a field or a Header"),  # type: ignore[arg-type]
        (mapped(type=TypeField("text", ["order.placed"])), "type", "the names of event types by its values"),  # type: ignore[arg-type]
        (mapped(type=TypeField("text", {1: "order.placed"})), "type", "the names of event types by its values"),  # type: ignore[dict-item]
        (mapped(subject=["id"]), "subject", "['id']: give a field, a Header, Record.KEY, or None"),
        (mapped(source=5), "source", "5: give a text"),
        (avro({"type": "record"}), "schema", "a dict: give Avro's JSON as a text, or the Path of its file"),
        (raw("hex"), "form", '\'hex\': give "text" or "base64"'),
        (events(types=["x"]), "types", "['x']: give event types by what is sent, as texts"),
        (events(types={"x": 1}), "types", "{'x': 1}: give event types by what is sent, as texts"),
        (events(schemas={1: 1}), "schemas", "{1: 1}: give versions by dataschema"),
        (events(schemas={"x": "1"}), "schemas", "{'x': '1'}: give versions by dataschema"),
        (events(schemas=["x"]), "schemas", "['x']: give versions by dataschema"),
        (PlainJson, "records", "PlainJson doesn't say how they are read"),
        (None, "records", "a NoneType doesn't say how they are read"),
    ],
)
def test_a_part_of_another_type_is_named(records: Any, part: str, says: str) -> None:
    with pytest.raises(BadDefinition) as error:
        Topic("orders", (MADE,), records=records)
    assert (error.value.code, error.value.fields["part"]) == ("MAPPING", part)
    assert error.value.what.startswith(f"topic orders: {part}: ")
    assert says in error.value.what


@pytest.mark.parametrize(
    ("parts", "code", "says"),
    [
        ({"name": 5}, "TOPIC_NAME", "5 is no topic name"),
        ({"kafka_topic": None}, "TOPIC_NAME", "None is no topic name"),
        ({"contracts": MADE}, "TOPIC_CONTRACTS", "orders: contracts is a Contract, and no tuple of them"),
        ({"contracts": (MADE.schema,)}, "TOPIC_CONTRACTS", "orders: contracts is a tuple, and no tuple of them"),
        ({"upcasters": 5}, "TOPIC_CONTRACTS", "orders: upcasters is a int, and no tuple of them"),
        ({"allowed_lateness": 5}, "TOPIC_TIMES", "orders: allowed_lateness is 5, and not a timedelta"),
        ({"retention": "7d"}, "TOPIC_TIMES", "orders: retention is '7d', and not a timedelta"),
        ({"partitions": "4"}, "TOPIC_EMPTY", "orders: partitions is '4', and not a whole number"),
        ({"replication": "3"}, "TOPIC_COPIES", "orders: replication is '3', and not a whole number"),
    ],
)
def test_a_setting_of_a_topic_of_another_type_is_named(parts: dict[str, Any], code: str, says: str) -> None:
    with pytest.raises(BadDefinition) as error:
        Topic(**{"name": "orders", "contracts": (MADE,), **parts})
    assert (error.value.code, error.value.what) == (code, says)
    assert error.value.next_step


def test_what_was_taken_is_taken_as_before() -> None:
    """A list in place of a tuple, and None in place of an empty text."""
    contracts: Any = [MADE]
    Topic("orders", contracts, records=mapped(source=None, time=time("at", unit=None, format=None)))
    Topic("orders", (MADE,), records=Protobuf(id=Header("id"), time=NOW, type=TypeField(Header("type"))))


def test_a_schema_file_that_is_no_utf8_is_named(tmp_path: Path) -> None:
    file = tmp_path / "order.avsc"
    file.write_bytes('{"doc": "für"}'.encode("latin-1"))
    with pytest.raises(BadDefinition, match=r"order\.avsc can't be read: byte 10 is no UTF-8") as error:
        avro(file)
    assert (error.value.code, error.value.fields["part"]) == ("MAPPING", "schema")
