"""The producer: validates events against their contracts and sends them once, with an idempotent client.

Guaranteed: a rejected event was not sent; a receipt means that all in-sync replicas have the record at that offset;
order per key; no duplicates from the client's own retries. Not guaranteed: a program that dies between sending and
reading the receipt can't know whether the record is in the log. It sends the event again with the same id, and landing
keeps the first.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Self

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, Message

from anabranch.contracts import CloudEvents, Event
from anabranch.contracts.model.declarations import Declarations
from anabranch.contracts.model.records import Headers, Mapped
from anabranch.contracts.sending import EventValidator, refused
from anabranch.core.errors import AnabranchError, BadInput, TryAgain
from anabranch.core.settings import Settings
from anabranch.ingest.kafka.admin import existing_topics
from anabranch.ingest.kafka.batches import size_of
from anabranch.ingest.kafka.client import bad_options, client_config, moment_of, translate_error

DELIVERY_SECONDS = 60
"""How long a record may wait for an unavailable broker before its delivery fails."""
_LAST_SECONDS = 5.0
"""After an error in the caller: how long records that were already handed over may still be sent."""
RECORD_OVERHEAD = 512
"""Bytes of a record in the broker's format in addition to its key and value, at most."""

Delivered = Callable[[KafkaError | None, Message], None]
"""Called from ``poll`` and ``flush``, once per record. It must not raise: that would break the flush."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """Where a record is in the log."""

    topic: str
    """Its declared name."""
    partition: int
    offset: int | None
    """None: the broker had the record already when the client sent it again, after a lost answer, and then it names
    no offset."""
    append_time: datetime
    """By the broker's clock, in UTC, in milliseconds; where ``offset`` is None, by this machine's."""


def open_client(
    settings: Settings, declarations: Declarations, *, linger_ms: int = 20, delivery_seconds: int = DELIVERY_SECONDS
) -> confluent_kafka.Producer:
    """Return an idempotent client that waits for all in-sync replicas. Raises BadInput KAFKA_OPTIONS."""
    defaults = {"linger.ms": linger_ms, "compression.type": "lz4", "queue.buffering.max.messages": 200_000}
    limits = [topic.max_message_bytes for topic in declarations.topics.values()]
    fixed = {
        "enable.idempotence": True,
        "acks": "all",
        "message.timeout.ms": delivery_seconds * 1000,
        "allow.auto.create.topics": False,
        "message.max.bytes": max([1_000_000, *limits]),
        # Several records of a partition are sent as one set, which the broker refuses if it is larger than the topic's
        # limit, whatever each of them is. A larger record is a set of its own.
        "batch.size": min([1_000_000, *limits]),
        # the partitioner of the Java client: a key goes to the same partition with any client
        "partitioner": "murmur2_random",
    }
    try:
        return confluent_kafka.Producer(client_config(settings, defaults, fixed))
    except (KafkaException, ValueError, TypeError) as error:
        raise bad_options(settings, error) from None


class Producer:
    """Use it as a context manager; leaving it without an error flushes. Not thread-safe.

    Raises BROKER_UNREACHABLE when entered without a broker (within 5 s), EVENT_REFUSED from ``send`` and
    ``send_prepared``, TOPIC_MISSING for a topic that the broker doesn't hold, DELIVERY_FAILED from ``flush``.
    """

    def __init__(self, settings: Settings, declarations: Declarations) -> None:
        self._settings = settings
        self._declarations = declarations
        topics = declarations.topics.values()
        self._validators = {t.name: EventValidator(t.contracts) for t in topics}
        self._in_kafka = {t.name: t.in_kafka for t in topics}
        self._limits = {t.name: t.max_message_bytes - RECORD_OVERHEAD for t in topics}
        self._partitions: dict[str, int] = {}
        self._failed: list[tuple[KafkaError, str]] = []
        self._client: confluent_kafka.Producer | None = None

    def __enter__(self) -> Self:
        self._partitions = existing_topics(self._settings)
        self._client = open_client(self._settings, self._declarations)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.flush()
            elif self._client is not None:
                self._client.flush(_LAST_SECONDS)
        finally:
            self._client = None

    def send(self, event: Event) -> Future[Receipt]:
        """Validate one event and hand it to the client. The future is done after ``flush``, or earlier while more
        events are sent. Its error is DELIVERY_FAILED."""
        topic = self._topic_of(event)
        value = event_json(event)
        self._check(topic, value)
        return self.send_checked(topic, event.subject.encode(), value)

    def send_checked(self, topic: str, key: bytes | None, value: bytes, headers: Headers = None) -> Future[Receipt]:
        """The same for a record that the caller has checked."""
        future: Future[Receipt] = Future()
        self.send_raw(topic, key, value, partial(self._settle, future, topic), headers)
        return future

    def send_prepared(self, topic: str, key: bytes, value: bytes, delivered: Delivered) -> None:
        """Validate an event that is already serialized and hand it to the client: the fast way for many events."""
        self._check(topic, value)
        self.send_raw(topic, key, value, delivered)

    def _check(self, topic: str, value: bytes) -> None:
        validator = self._validators.get(topic)
        if validator is None:
            raise self._unknown(topic)
        validator.check_bytes(value)

    def send_raw(
        self, topic: str, key: bytes | None, value: bytes | None, delivered: Delivered, headers: Headers = None
    ) -> None:
        """Hand over bytes without validation: of a record that the caller has checked, or to inject a fault."""
        client, in_kafka = self._running(), self._in_kafka.get(topic, topic)
        if in_kafka not in self._partitions:
            raise self._unknown(topic)
        size = size_of(key, value, headers)
        if size > self._limits.get(topic, size):
            raise refused(
                "event", f"{size} bytes are more than the topic's {self._limits[topic]}", event_type="", event_id=""
            )
        while True:
            try:
                client.produce(in_kafka, value=value, key=key, headers=list(headers or ()), on_delivery=delivered)
            except BufferError:
                client.poll(0.1)
            except KafkaException as error:
                raise translate_error(self._settings, error, f"sending to {topic}") from None
            else:
                client.poll(0)
                return

    def poll(self, seconds: float) -> None:
        """Deliver receipts for this long; call it while you wait."""
        self._running().poll(seconds)

    def flush(self) -> None:
        """Wait until every record is in the log. Raises DELIVERY_FAILED if a record of ``send`` isn't."""
        client = self._running()
        while client.flush(0.5):  # short, so that Ctrl-C is handled; each record fails by its own timeout
            pass
        if self._failed:
            failed, self._failed = self._failed, []
            raise self.failure(failed[0][0], len(failed), failed[0][1])

    def failure(self, error: KafkaError, count: int, topic: str = "") -> TryAgain:
        """The error for ``count`` records, the first of them of ``topic``, that were not acknowledged."""
        declared = self._declarations.topics.get(topic)
        repeatable = declared is None or not isinstance(declared.records, Mapped) or declared.records.id_parts
        return TryAgain(
            "DELIVERY_FAILED",
            f"{count} record(s) could not be delivered to {self._settings.brokers}: {error}",
            state="records with a receipt are in the log; those that failed may or may not be",
            next_step="check that the broker runs (anabranch status), then send all again: landing keeps one of each"
            if repeatable
            else f"look which are in the log (anabranch events tail {topic}): records of {topic} have no id, so each "
            "that is sent again is another one",
            count=count,
            reason=str(error),
        )

    def _settle(self, future: Future[Receipt], topic: str, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed.append((error, topic))
            future.set_exception(self.failure(error, 1, topic))
        else:
            future.set_result(receipt_of(message, topic))

    def _topic_of(self, event: Event) -> str:
        try:
            topic = self._declarations.topic_of(event.type)
        except BadInput as error:
            raise refused("type", error.what, event_type=event.type, event_id=event.id) from None
        if not isinstance(topic.records, CloudEvents):
            reason = f"topic {topic.name} has records without an envelope: send them with any client of Kafka"
            raise refused("type", reason, event_type=event.type, event_id=event.id)
        return topic.name

    def _running(self) -> confluent_kafka.Producer:
        if self._client is None:
            raise BadInput(
                "PRODUCER_CLOSED", "this producer isn't open", next_step="with Producer(...) as producer: ..."
            )
        return self._client

    def _unknown(self, topic: str) -> AnabranchError:
        return BadInput(
            "TOPIC_MISSING",
            f"{self._settings.brokers} has no topic {self._in_kafka.get(topic, topic)!r}",
            state="the record was not sent",
            next_step="declare it in spark_jobs/contracts, then: anabranch topics create",
            topic=topic,
        )


def event_json(event: Event) -> bytes:
    """The event as it is sent. Raises EVENT_REFUSED for one that JSON can't hold."""
    try:
        return event.to_json()
    except (AttributeError, TypeError, ValueError, RecursionError) as error:
        why = f"can't be written as JSON: {error}"
        raise refused("event", why, event_type=event.type, event_id=event.id) from None


def receipt_of(message: Message, topic: str = "") -> Receipt:
    """The receipt of a delivered record of ``topic`` (else the name in Kafka). Its time is the broker's, because topics
    are declared with LogAppendTime."""
    _, milliseconds = message.timestamp()
    return Receipt(
        topic=topic or str(message.topic()),
        partition=int(message.partition() or 0),
        offset=message.offset(),
        append_time=moment_of(int(milliseconds)),
    )
