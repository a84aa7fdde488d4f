"""``anabranch.send``: single records from a program, without a producer of one's own.

Each call waits until the broker has the records. To send many, keep a ``Producer``, or give them all at once.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from anabranch.contracts import CloudEvents, Event, Record, Topic, load_declarations
from anabranch.contracts.model.records import Headers, Mapped, plain_key
from anabranch.contracts.sending import RecordCheck, json_text, refused
from anabranch.core.errors import BadInput, TryAgain
from anabranch.core.settings import Settings, load_settings, user_at_host
from anabranch.ingest.kafka.batches import size_of
from anabranch.ingest.kafka.producer import RECORD_OVERHEAD, Producer, Receipt, event_json

_Prepared = tuple[bytes | None, bytes, Event | None]
"""Key and value of a record, and the event if it has an envelope."""


def send(topic: str, record: Mapping[str, Any] | Event, *, settings: Settings | None = None, **given: Any) -> Receipt:
    """Send one record, and return where it is in the log.

    For a topic of CloudEvents ``record`` is an event's data, or an ``Event``; ``given`` are its ``type`` (needed if the
    topic has several), ``id`` (else a random one: then a repeated call is another event), ``time`` (else now),
    ``subject`` and ``source``. For a topic of plain JSON it is the record itself; ``given`` may have its ``key`` and
    ``headers``.

    Raises BadInput EVENT_REFUSED (nothing was sent), TOPIC_MISSING, BROKER_UNREACHABLE, DELIVERY_FAILED (it may be in
    the log: its field ``ids`` has the random id, with which it can be sent again).
    """
    return send_all(topic, [record], settings=settings, **given)[0]


def send_all(
    topic: str, records: Iterable[Mapping[str, Any] | Event], *, settings: Settings | None = None, **given: Any
) -> list[Receipt]:
    """Send records, and return where each is in the log. ``given``, as for ``send``, is the same for all of them.

    All are checked before the first one is sent.
    """
    settings = settings or load_settings()
    declared = load_declarations(settings.contracts_folder)
    found = declared.topic(topic)
    check, limit, made = RecordCheck(found), found.max_message_bytes - RECORD_OVERHEAD, list[Event]()
    if isinstance(found.records, CloudEvents):
        if "id" in given and len(records := list(records)) > 1:
            raise _unusable("id", "one id can't stand for several events", "give Event objects")
        events = [(each, each if isinstance(each, Event) else _event(found, each, **given)) for each in records]
        made = [event for each, event in events if event is not each and not given.get("id")]
        prepared: list[_Prepared] = [_enveloped(event) for _, event in events]
        headers: Headers = None
    else:
        headers = [(name, _bytes("headers", text)) for name, text in given.pop("headers", {}).items()]
        if found.records.shares_id and len(records := list(records)) > 1:
            raise _unusable("id", "one id can't stand for several records", "send each with its own key or headers")
        prepared = [_plain(found, each, **given) for each in records]
    for number, (key, value, named) in enumerate(prepared):
        problem = check.problem(value, json.loads(value), headers)
        if problem is None and (size := size_of(key, value, headers)) > limit:
            problem = "event" if named else "record", f"{size} bytes are more than the topic's {limit}"
        if problem is not None:
            event_type, event_id = (named.type, named.id) if named else ("", f"{number}")
            raise refused(*problem, event_type=event_type, event_id=event_id)
    with Producer(settings, declared) as producer:
        waiting = [producer.send_checked(topic, key, value, headers) for key, value, _ in prepared]
        try:
            producer.flush()
        except TryAgain as error:
            raise _with_ids(error, made, alone=len(prepared) == 1) from None
    return [receipt.result() for receipt in waiting]


def _with_ids(error: TryAgain, made: Sequence[Event], *, alone: bool) -> TryAgain:
    """DELIVERY_FAILED for events whose ids were made here: sent again without them, each would be another event."""
    if not made:
        return error
    ids, source = [event.id for event in made], made[0].source
    again = f"with id={ids[0]!r}, source={source!r}" if alone else "as Event objects, with this error's ids and source"
    return TryAgain(
        error.code,
        error.what,
        state=error.state,
        next_step=f"check that the broker runs (anabranch status), then send the same {again}: landing keeps one of "
        "each. Without its id what is in the log already would be another event",
        **error.fields,
        ids=ids,
        source=source,
    )


def _event(
    topic: Topic, data: Mapping[str, Any], *, type: str = "", id: str = "", subject: str = "", source: str = "",  # noqa: A002
    time: datetime | None = None,
) -> Event:  # fmt: skip
    for name, value in (("type", type), ("id", id), ("subject", subject), ("source", source)):
        if not isinstance(value, str):
            raise _unusable(name, f"{value!r} is no text", f"give {name} as a text")
    if not type and len(topic.event_types) > 1:
        raise _unusable(
            "type", f"topic {topic.name} has several event types", f"give type: {', '.join(topic.event_types)}"
        )
    kind = type or topic.event_types[0]
    if kind not in topic.event_types:
        raise _unusable("type", f"topic {topic.name} has no {kind!r}", f"use {', '.join(topic.event_types)}")
    given = id or uuid.uuid4().hex
    return Event(
        given, source or f"/{user_at_host()}", kind, subject or given,
        time or datetime.now(UTC), data, topic.newest(kind).uri,
    )  # fmt: skip


def _enveloped(event: Event) -> _Prepared:
    value = event_json(event)  # first: its texts are checked then
    if not isinstance(event.subject, str):
        raise refused("subject", f"{event.subject!r} is no text", event_type=event.type, event_id=event.id)
    return event.subject.encode() or None, value, event


def _bytes(field: str, text: str) -> bytes:
    try:
        return text.encode()
    except (AttributeError, UnicodeEncodeError) as error:
        raise _unusable(field, f"{text!a} is no text: {error}", "give a text that UTF-8 can hold") from None


def _plain(topic: Topic, record: Mapping[str, Any] | Event, *, key: str = "") -> _Prepared:
    mapping = topic.records
    assert isinstance(mapping, Mapped)  # noqa: S101 - the caller has looked
    if isinstance(record, Event):
        raise _unusable("record", f"topic {topic.name} has records without an envelope", "give the record itself")
    if Record.KEY in mapping.id_parts and not key:
        raise _unusable("key", f"the id of {topic.name}'s records is their key", "give key")
    try:
        text = key or plain_key(mapping, topic.contracts[0], record)
        value = json.dumps(
            dict(record), separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=json_text
        ).encode()
    except (AttributeError, TypeError, ValueError, RecursionError) as error:
        what = f"it can't be written as JSON: {error}"
        raise _unusable("record", what, "use texts for what JSON has no type for") from None
    return _bytes("key", text) if text else None, value, None


def _unusable(field: str, what: str, next_step: str) -> BadInput:
    return BadInput("EVENT_REFUSED", what, state="nothing was sent", next_step=next_step, field=field)
