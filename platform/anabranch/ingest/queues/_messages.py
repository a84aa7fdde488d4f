"""Makes a record of a message: its body as it is, a key, and the headers that are handed on.

CloudEvents: attributes in headers ``cloudEvents:id`` or ``cloudEvents_id`` (AMQP protocol binding 1.0.2) become
``ce_id``, as Kafka's binding has them. A name that is handed on means the header of that name, else the property.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from pika.spec import Basic, BasicProperties

from anabranch.contracts import CloudEvents, PlainJson, Queue, Topic
from anabranch.contracts.model.records import Mapped, plain_key
from anabranch.contracts.sending import rfc3339
from anabranch.ingest.kafka.batches import RawRecord

PROPERTIES: Final[Mapping[str, Callable[[Basic.Deliver, BasicProperties], Any]]] = {
    "app-id": lambda _, properties: properties.app_id,
    "content-type": lambda _, properties: properties.content_type,
    "correlation-id": lambda _, properties: properties.correlation_id,
    "message-id": lambda _, properties: properties.message_id,
    "reply-to": lambda _, properties: properties.reply_to,
    "timestamp": lambda _, properties: properties.timestamp,
    "type": lambda _, properties: properties.type,
    "user-id": lambda _, properties: properties.user_id,
    "exchange": lambda delivery, _: delivery.exchange,
    "routing-key": lambda delivery, _: delivery.routing_key,
}
"""Parts of a message besides its headers, by the names that they are handed on as. ``timestamp`` is in seconds."""
_CLOUD: Final = ("cloudEvents:", "cloudEvents_")
_MOST_KEY: Final = 1_000


class Messages:
    """Makes the records of one queue."""

    def __init__(self, queue: Queue, topic: Topic) -> None:
        self._queue, self._topic = queue, topic
        plain = isinstance(topic.records, Mapped)
        mapped = topic.records.header_names if isinstance(topic.records, Mapped) else ("content-type",)
        self._names, self._is_cloud = tuple(dict.fromkeys([*mapped, *queue.headers])), not plain

    def record(self, delivery: Basic.Deliver, properties: BasicProperties, body: bytes) -> RawRecord:
        """Never fails: what isn't an event of the topic is a record all the same."""
        headers = dict(self._headers(delivery, properties))
        return RawRecord(self._key(delivery, properties, headers, body), body, [*headers.items()])

    def _headers(self, delivery: Basic.Deliver, properties: BasicProperties) -> Iterator[tuple[str, bytes]]:
        if self._is_cloud:
            for name, value in (properties.headers or {}).items():
                # A name that is no UTF-8 comes as bytes.
                if isinstance(name, str) and name.startswith(_CLOUD) and (text := text_of(value)) is not None:
                    yield f"ce_{name[len(_CLOUD[0]) :]}", text
        for name in self._names:
            if (text := _part(name, delivery, properties)) is not None:
                yield name, text

    def _key(
        self, delivery: Basic.Deliver, properties: BasicProperties, headers: Mapping[str, bytes], body: bytes
    ) -> bytes | None:
        if self._queue.key:
            key = _part(self._queue.key, delivery, properties)
        elif "ce_subject" in headers:
            key = headers["ce_subject"]
        else:
            key = self._key_of(body)
        return key if key and len(key) <= _MOST_KEY else None

    def _key_of(self, body: bytes) -> bytes | None:
        records = self._topic.records
        try:
            content = json.loads(body)
        except (ValueError, RecursionError):  # landing says what is wrong with it
            return None
        if not isinstance(content, dict):
            return None
        subject = content.get("subject") if isinstance(records, CloudEvents) else None
        key = plain_key(records, self._topic.contracts[0], content) if isinstance(records, PlainJson) else subject
        return key.encode("utf-8", "replace") if isinstance(key, str) else None


def _part(name: str, delivery: Basic.Deliver, properties: BasicProperties) -> bytes | None:
    found = (properties.headers or {}).get(name)
    if found is None and name in PROPERTIES:
        found = PROPERTIES[name](delivery, properties)
    return text_of(found)


def text_of(value: Any) -> bytes | None:
    """The text of a header's value; None for a table or a list, and where there is none."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, float) and value.is_integer():  # the same as the integer that other clients send
        value = int(value)
    if isinstance(value, datetime):
        return rfc3339(value if value.tzinfo else value.replace(tzinfo=UTC)).encode()
    return str(value).encode() if isinstance(value, str | int | float | Decimal) else None
