"""Whether a topic and its mapping are of the types that they are declared with. Python doesn't check it, and what comes
later would raise its own errors, or take a wrong one for something else."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from anabranch.contracts.model.contract import Contract
from anabranch.contracts.model.records import Avro, CloudEvents, Header, Mapped, Raw, Record, TimeField, TypeField
from anabranch.contracts.model.upcasters import Upcaster
from anabranch.core.errors import BadDefinition

if TYPE_CHECKING:
    from anabranch.contracts.model.topics import Topic

_TIMES: Final = ("retention", "allowed_lateness", "duplicate_horizon", "future_bound", "retention_alarm")
_EVENTS_TYPES: Final = 'give event types by what is sent, as texts: {"com.example.PaymentMade": "payment.made"}'
_SCHEMAS: Final = 'give versions by dataschema: {"https://example.com/payment/1": 1}, or "any"'


def check_types(topic: Topic) -> None:
    """Raises BadDefinition for what is wrong with the topic itself; ``wrong_parts`` finds it in its records."""
    for code, what, next_step in _wrong(topic):
        raise BadDefinition(code, what, next_step=next_step)


def _wrong(topic: Any) -> Iterator[tuple[str, str, str]]:
    name = topic.name
    for given in (name, topic.kafka_topic):
        if not isinstance(given, str):
            yield "TOPIC_NAME", f"{given!r} is no topic name", "give a text"
    for what, each in (("contracts", Contract), ("upcasters", Upcaster)):
        given = getattr(topic, what)
        if not isinstance(given, Collection) or not all(isinstance(one, each) for one in given):
            advice = f"give a tuple, also of one: {what}=(ONE,)"
            yield "TOPIC_CONTRACTS", f"{name}: {what} is {_shown(given)}, and no tuple of them", advice
    for what in _TIMES:
        if not isinstance(given := getattr(topic, what), timedelta):
            yield "TOPIC_TIMES", f"{name}: {what} is {given!r}, and not a timedelta", "give it like timedelta(hours=1)"
    for what, code in (
        ("partitions", "TOPIC_EMPTY"),
        ("replication", "TOPIC_COPIES"),
        ("min_insync_replicas", "TOPIC_COPIES"),
    ):
        given = getattr(topic, what)
        if not isinstance(given, int) and (given is not None or what == "partitions"):
            yield code, f"{name}: {what} is {given!r}, and not a whole number", "give a whole number"


def wrong_parts(records: Any) -> Iterator[tuple[str, str]]:
    """The parts of how records are read that have another type, and what to give."""
    match records:
        case CloudEvents():
            yield from _of_events(records.types, records.schemas)
        case Mapped():
            yield from _of_mapping(records)
        case _:
            yield (
                "records",
                f"{_shown(records)} doesn't say how they are read: give CloudEvents(), or PlainJson(id=...)",
            )


def _of_events(types: Any, schemas: Any) -> Iterator[tuple[str, str]]:
    if not _is_texts(types):
        yield "types", f"{types!r}: {_EVENTS_TYPES}"
    if not isinstance(schemas, str) and not (
        isinstance(schemas, Mapping)
        and all(isinstance(uri, str) and isinstance(version, int) for uri, version in schemas.items())
    ):
        yield "schemas", f"{schemas!r}: {_SCHEMAS}"


def _of_mapping(mapping: Any) -> Iterator[tuple[str, str]]:
    parts = mapping.id if isinstance(mapping.id, tuple) else (mapping.id,)
    if wrong := [part for part in parts if not _is_part(part)]:
        yield "id", f"{wrong[0]!r}: give a field, a Header, Record.KEY, several of these as a tuple, or Record.OFFSET"
    if isinstance(mapping.time, TimeField):
        yield from _of_time(mapping.time)
    elif not isinstance(mapping.time, str):
        yield "time", f"{mapping.time!r}: give a field, a TimeField, or Record.APPEND_TIME"
    if isinstance(mapping.type, TypeField):
        if not _is_part(mapping.type.path) or not _is_texts(mapping.type.names):
            yield "type", f"{mapping.type!r}: give a field or a Header, and the names of event types by its values"
    elif mapping.type is not None:
        yield "type", f"{mapping.type!r}: give a TypeField, or None"
    if mapping.subject is not None and not _is_part(mapping.subject):
        yield "subject", f"{mapping.subject!r}: give a field, a Header, Record.KEY, or None"
    if mapping.source and not isinstance(mapping.source, str):
        yield "source", f"{mapping.source!r}: give a text"
    if isinstance(mapping, Avro) and mapping.schema and not isinstance(mapping.schema, str):
        yield "schema", f"{_shown(mapping.schema)}: give Avro's JSON as a text, or the Path of its file"
    if isinstance(mapping, Raw) and mapping.form not in ("text", "base64"):
        yield "form", f'{mapping.form!r}: give "text" or "base64"'


def _of_time(time: Any) -> Iterator[tuple[str, str]]:
    if not isinstance(time.path, str):
        yield "time", f"{time.path!r} is no path of a field"
    for what in ("unit", "format"):
        given = getattr(time, what)
        if given and not isinstance(given, str):
            yield "time", f"{what} {given!r} is no text"


def _is_part(part: Any) -> bool:
    return isinstance(part, str | Record) or (isinstance(part, Header) and isinstance(part.name, str))


def _is_texts(names: Any) -> bool:
    return isinstance(names, Mapping) and all(isinstance(each, str) for pair in names.items() for each in pair)


def _shown(given: Any) -> str:
    """What was given, in a few words: a contract is long."""
    return given.__name__ if isinstance(given, type) else f"a {type(given).__name__}"
