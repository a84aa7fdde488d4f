"""Sends lines as records, as they are: each is one record's value, with or without an envelope."""

from __future__ import annotations

import time
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, Message

from anabranch.contracts import Header, Topic
from anabranch.contracts.model.declarations import Declarations
from anabranch.contracts.model.records import Mapped, plain_key
from anabranch.contracts.sending import RecordCheck
from anabranch.core.errors import BadInput
from anabranch.core.settings import Settings
from anabranch.core.text import strict_json
from anabranch.core.text.quantities import counted
from anabranch.ingest.kafka.batches import size_of
from anabranch.ingest.kafka.producer import RECORD_OVERHEAD, Producer


@dataclass
class Sent:
    """How many lines are in the log, and the last known offset of each partition. ``failed``: the first error."""

    count: int = 0
    ends: dict[int, int] = field(default_factory=dict)
    failed: KafkaError | None = None
    failures: int = 0

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed, self.failures = self.failed or error, self.failures + 1
            return
        self.count += 1
        if (offset := message.offset()) is not None:
            partition = message.partition() or 0
            self.ends[partition] = max(offset, self.ends.get(partition, 0))


def send_lines(
    settings: Settings,
    declared: Declarations,
    topic: str,
    lines: Iterable[bytes],
    *,
    rate: float | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Sent:
    """Send each line that isn't empty, ``rate`` a second at most, and wait until all are in the log.

    Each is held to its contract before it is sent; its key is the event's subject, or what the topic's mapping says.
    Raises BadInput EVENT_REFUSED, which names the line (those before it are in the log), TOPIC_MISSING,
    BROKER_UNREACHABLE, DELIVERY_FAILED.
    """
    found = declared.topic(topic)
    if isinstance(found.records, Mapped) and (
        names := [part.name for part in found.records.needed_parts if isinstance(part, Header)]
    ):
        raise BadInput(
            "EVENT_REFUSED",
            f"records of {topic} need headers ({', '.join(names)}), which lines can't carry",
            state="nothing was sent",
            next_step="send them from a program: anabranch.send(..., headers={...})",
        )
    check, sent, begun = RecordCheck(found), Sent(), time.monotonic()
    with Producer(settings, declared) as producer:
        handed = 0
        for number, line in enumerate(lines, 1):
            value = line.removeprefix(BOM_UTF8 if number == 1 else b"").strip()
            if not value:
                continue
            try:
                key = _key(found, check, value)
            except ValueError as error:
                _flush(producer, sent, topic)
                raise BadInput(
                    "EVENT_REFUSED",
                    f"line {number}: {error}",
                    state=f"sent before it: {counted(sent.count, 'line')}",
                    next_step="correct it, and send it with those behind it",
                    line=number,
                ) from None
            if rate is not None and (early := begun + handed / rate - time.monotonic()) > 0:
                producer.poll(0)
                sleep(early)
            producer.send_raw(topic, key, value, sent)
            handed += 1
        _flush(producer, sent, topic)
    return sent


def _flush(producer: Producer, sent: Sent, topic: str) -> None:
    """Wait until all are in the log. Raises DELIVERY_FAILED."""
    producer.flush()
    if sent.failed is not None:
        raise producer.failure(sent.failed, sent.failures, topic)


def _key(topic: Topic, check: RecordCheck, value: bytes) -> bytes | None:
    """The key of a record. Raises ValueError for what can't be sent."""
    content = strict_json.loads(value.decode())
    if not isinstance(content, dict):
        raise ValueError(f"a JSON object is needed, not {type(content).__name__}")
    records = topic.records
    text = plain_key(records, topic.contracts[0], content) if isinstance(records, Mapped) else content.get("subject")
    key = text.encode() if isinstance(text, str) and text else None
    if (problem := check.problem(value, content, keyed=key is not None)) is not None:
        raise ValueError(": ".join(problem))
    if (size := size_of(key, value, None)) > (limit := topic.max_message_bytes - RECORD_OVERHEAD):
        raise ValueError(f"{size} bytes are more than the topic's {limit}")
    return key
