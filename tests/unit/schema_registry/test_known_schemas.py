"""Schemas of a registry are asked for once and kept; ids that aren't known are asked for when records name them."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from anabranch.contracts import Avro, Contract, Record, Topic
from anabranch.contracts.fields.registered_schema import RegisteredSchema
from anabranch.contracts.formats import UnknownSchema, encode
from anabranch.core.errors import BadInput, TryAgain
from anabranch.core.settings import Settings, load_settings
from anabranch.ingest.landing.decoding._readers import reader_of
from anabranch.ingest.schema_registry import asking_registry, kept_schemas, with_schemas, with_schemas_of
from pydantic import SecretStr
from support.avro_records import avro, in_wire_format
from support.schema_registry import RegistryState, schema_registry

pytestmark = pytest.mark.unit
FIRST: Final[dict[str, Any]] = {"type": "record", "name": "Note", "fields": [{"name": "id", "type": "string"}]}
SECOND: Final[dict[str, Any]] = {
    "type": "record",
    "name": "Note",
    "fields": [*FIRST["fields"], {"name": "n", "type": "int"}],
}
NO_SCALE: Final = RegisteredSchema(
    "avro",
    json.dumps(
        {
            **FIRST,
            "fields": [
                {"name": "n", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": None}}
            ],
        }
    ),
)
NOTED = Contract("note.taken", 1, {"type": "object", "properties": {"id": {"type": "string"}}})
NOTES = Topic("notes", (NOTED,), records=Avro(id="id", time=Record.APPEND_TIME))


@pytest.fixture
def registry() -> Iterator[RegistryState]:
    state = RegistryState(first_id=7)
    with schema_registry(state):
        yield state


def registered(state: RegistryState, schema: dict[str, Any], subject: str = "notes-value") -> int:
    return state.register(subject, {"schema": json.dumps(schema)})


def settings(tmp_path: Path, state: RegistryState | None, **more: Any) -> Settings:
    return Settings(home=tmp_path, schema_registry_url=state.url if state else "", **more)


def read(topic: Topic, record: bytes) -> bytes:
    assert isinstance(topic.records, Avro)
    return encode(reader_of(topic.records)(record))


def schemas(topic: Topic) -> Any:
    assert isinstance(topic.records, Avro)
    return topic.records.schemas


def test_the_newest_schema_of_the_topic_is_known_before_its_first_record(
    tmp_path: Path, registry: RegistryState
) -> None:
    registered(registry, FIRST)
    newest = registered(registry, SECOND)
    asking = asking_registry(settings(tmp_path, registry), NOTES)
    assert set(schemas(asking)) == {newest}
    assert read(asking, in_wire_format(newest, avro({"id": "a", "n": 3}, SECOND))) == b'{"id":"a","n":3}'


def test_the_registry_is_asked_by_the_name_that_the_topic_has_in_kafka(tmp_path: Path, registry: RegistryState) -> None:
    registered(registry, SECOND)
    known = registered(registry, FIRST, "prod.notes-v2-value")
    asking = asking_registry(settings(tmp_path, registry), replace(NOTES, kafka_topic="prod.notes-v2"))
    assert set(schemas(asking)) == {known}
    assert set(kept_schemas(settings(tmp_path, None), "notes")) == {known}, "they are kept by our name"


def test_a_new_id_is_taken_in_once_and_then_read_without_the_registry(tmp_path: Path, registry: RegistryState) -> None:
    old = registered(registry, FIRST)
    registered(registry, SECOND)
    record = in_wire_format(old, avro({"id": "a"}, FIRST))
    topic = asking_registry(settings(tmp_path, registry), NOTES)
    with pytest.raises(TryAgain, match=f"schema id {old}, which is new") as raised:
        read(topic, record)
    assert raised.value.code == "SCHEMA_TAKEN_IN"
    assert set(kept_schemas(settings(tmp_path, None), "notes")) == {old, old + 1}
    alone = with_schemas(settings(tmp_path, None), NOTES)
    asked = len(registry.asked)
    assert read(alone, record) == b'{"id":"a"}'
    assert len(registry.asked) == asked


def test_an_id_that_the_registry_does_not_know_is_not_asked_for_again_at_once(
    tmp_path: Path, registry: RegistryState
) -> None:
    topic = asking_registry(settings(tmp_path, registry), NOTES)
    for _ in range(3):
        with pytest.raises(UnknownSchema, match="unknown_schema: id 99"):
            read(topic, in_wire_format(99, b"x"))
    assert [path for path in registry.asked if "/ids/99" in path] == ["/schemas/ids/99"]
    schemas(topic)._registry._clock = lambda: 1e12
    registry.schemas[99] = {"schema": json.dumps(FIRST)}
    with pytest.raises(TryAgain, match="99"):
        read(topic, in_wire_format(99, b"x"))


def test_bytes_that_only_look_like_the_wire_format_ask_no_end_of_questions(
    tmp_path: Path, registry: RegistryState
) -> None:
    topic = asking_registry(settings(tmp_path, registry), NOTES)
    for number in range(1_000, 3_000):
        with pytest.raises(UnknownSchema):
            read(topic, in_wire_format(number, b"x"))
    assert sum("/ids/" in path for path in registry.asked) == 50


def test_a_topic_that_knows_schemas_starts_without_the_registry(tmp_path: Path, registry: RegistryState) -> None:
    first = registered(registry, FIRST)
    asking_registry(settings(tmp_path, registry), NOTES)
    asked = len(registry.asked)
    topic = asking_registry(settings(tmp_path, registry), NOTES)
    assert (set(schemas(topic)), len(registry.asked)) == ({first}, asked)
    second, third = registered(registry, SECOND), registered(registry, {**SECOND, "doc": "the newest"})
    with pytest.raises(TryAgain, match=f"schema id {second}, which is new"):
        read(topic, in_wire_format(second, b"x"))
    assert set(kept_schemas(settings(tmp_path, None), "notes")) == {first, second, third}, "the newest with it"


def test_a_copy_in_another_process_asks_for_nothing(tmp_path: Path, registry: RegistryState) -> None:
    newest = registered(registry, FIRST)
    copy = pickle.loads(pickle.dumps(asking_registry(settings(tmp_path, registry), NOTES)))  # noqa: S301
    assert type(schemas(copy)) is dict
    assert set(schemas(copy)) == {newest}
    asked = len(registry.asked)
    with pytest.raises(UnknownSchema):
        read(copy, in_wire_format(99, b"x"))
    assert len(registry.asked) == asked


def test_a_registry_that_is_away_stops_only_what_needs_it(tmp_path: Path) -> None:
    state = RegistryState(first_id=7)
    with schema_registry(state):
        known = registered(state, FIRST)
        asking_registry(settings(tmp_path, state), NOTES)
    topic = asking_registry(settings(tmp_path, state), NOTES)
    assert read(topic, in_wire_format(known, avro({"id": "a"}, FIRST))) == b'{"id":"a"}'
    with pytest.raises(TryAgain, match="doesn't answer") as raised:
        read(topic, in_wire_format(99, b"x"))
    assert raised.value.code == "REGISTRY_UNREACHABLE"


def test_a_missing_setting_and_a_wrong_password_are_named(tmp_path: Path, registry: RegistryState) -> None:
    with pytest.raises(BadInput, match="ANABRANCH_SCHEMA_REGISTRY_URL"):
        read(asking_registry(settings(tmp_path, None), NOTES), in_wire_format(1, b"x"))
    registry.login = "ann:secret"
    wrong = settings(tmp_path, registry, schema_registry_user="ann", schema_registry_password=SecretStr("wrong-one"))
    with pytest.raises(BadInput, match="refuses the login") as raised:
        read(asking_registry(wrong, NOTES), in_wire_format(1, b"x"))
    assert "wrong-one" not in str(raised.value)
    file = tmp_path / "password"
    file.write_text("secret\n")
    right = settings(tmp_path, registry, schema_registry_user="ann", schema_registry_password_file=file)
    number = registered(registry, FIRST)
    assert set(schemas(asking_registry(right, NOTES))) == {number}
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and path != file]
    assert kept, "the schemas"
    assert [path for path in kept if b"secret" in path.read_bytes()] == []


@pytest.mark.parametrize("address", ["http://ann:secret@registry:8081", "https://secret@registry"])
def test_an_address_with_a_password_in_it_is_refused_and_not_repeated(tmp_path: Path, address: str) -> None:
    with pytest.raises(BadInput, match="SCHEMA_REGISTRY_URL") as raised:
        load_settings(home=tmp_path, schema_registry_url=address)
    assert "secret" not in str(raised.value)


def test_schemas_that_refer_to_others_are_read_with_them(tmp_path: Path, registry: RegistryState) -> None:
    inner = {"type": "record", "name": "Place", "namespace": "shared", "fields": [{"name": "city", "type": "string"}]}
    registered(registry, inner, "shared.Place")
    outer = {"type": "record", "name": "Note", "fields": [*FIRST["fields"], {"name": "at", "type": "shared.Place"}]}
    reference = {"name": "shared.Place", "subject": "shared.Place", "version": 1}
    number = registry.register("notes-value", {"schema": json.dumps(outer), "references": [reference]})
    asking_registry(settings(tmp_path, registry), NOTES)
    kept = with_schemas(settings(tmp_path, None), NOTES)
    whole = {**outer, "fields": [FIRST["fields"][0], {"name": "at", "type": inner}]}
    record = in_wire_format(number, avro({"id": "a", "at": {"city": "Rome"}}, whole))
    assert read(kept, record) == b'{"id":"a","at":{"city":"Rome"}}'


def test_a_trial_asks_for_what_its_records_name_and_keeps_nothing(tmp_path: Path, registry: RegistryState) -> None:
    number = registered(registry, FIRST)
    record = in_wire_format(number, avro({"id": "a"}, FIRST))
    topic = with_schemas_of(settings(tmp_path, registry), NOTES, [record, record, None, b"{}", in_wire_format(99, b"")])
    assert read(topic, record) == b'{"id":"a"}'
    assert [path for path in registry.asked if "/ids/" in path] == [f"/schemas/ids/{number}", "/schemas/ids/99"]
    assert not list(tmp_path.rglob("*"))


@pytest.mark.parametrize(
    ("kept", "record", "reason"),
    [
        (RegisteredSchema("avro", '"int"'), b"\x00\x00\x00\x00\x07\x02", "not_avro: the value is no record"),
        (RegisteredSchema("avro", "{"), b"\x00\x00\x00\x00\x07\x02", "unread_schema: id 7: it is no Avro schema"),
        (NO_SCALE, b"\x00\x00\x00\x00\x07\x02", "unread_schema: id 7: a decimal whose precision is 4 and scale None"),
        (RegisteredSchema("protobuf", ""), b"\x00\x00\x00\x00\x07\x02", "other_format: schema id 7"),
        (RegisteredSchema("avro", json.dumps(FIRST)), b"\x01\x00\x00\x00\x07\x02a", "no_schema_id: the first byte"),
        (RegisteredSchema("avro", json.dumps(FIRST)), b"\x00\x00\x00", "no_schema_id: 3 bytes are too few"),
        (RegisteredSchema("avro", json.dumps(FIRST)), b'{"id":"a"}', "no_schema_id: the first byte is 0x7b"),
        (RegisteredSchema("avro", json.dumps(FIRST)), b"\x00\x00\x00\x00\x07\x04a", "not_avro: it ends in the middle"),
    ],
)
def test_what_is_wrong_is_said_in_the_words_of_the_format(kept: RegisteredSchema, record: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        reader_of(Avro(id="id", time=Record.APPEND_TIME, schemas={7: kept}))(record)


def test_a_topic_without_its_schemas_is_not_read_at_all() -> None:
    with pytest.raises(RuntimeError, match="with_schemas"):
        read(NOTES, b"")


def test_a_password_travels_only_over_tls(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="https"):
        Settings(
            home=tmp_path,
            schema_registry_url="http://registry.example:8081",
            schema_registry_user="ann",
            schema_registry_password=SecretStr("x"),
        )
