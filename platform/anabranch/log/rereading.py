"""Which offsets of a partition hold a record, as a client says that has nothing to do with Spark's."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from anabranch.log.client import Heard, bad_options, client_config, translated, unreachable
from anabranch.settings import Settings

PATIENCE_SECONDS: Final = 10.0
"""How long the broker may say nothing."""
_AT_ONCE: Final = 10_000
_GONE: Final = {KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET}
_FIXED: Final = {
    "group.id": "anabranch-landing",  # none is joined, and nothing is committed to it
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
    "auto.offset.reset": "error",
    "enable.partition.eof": True,  # its offset lies behind markers, where a position doesn't
    "fetch.wait.max.ms": 50,
}


@dataclass(frozen=True, slots=True)
class Reread:
    """``offsets`` hold the records that were received, in their order. All records before ``reached`` were."""

    offsets: tuple[int, ...]
    reached: int


def reread(settings: Settings, topic: str, partition: int, start: int, until: int) -> Reread:
    """Read a partition from offset ``start`` until a record, or the end of what can be read, lies at ``until`` or
    behind it. ``reached`` is less where that end comes first, or where the log doesn't hold ``start`` any more.

    BROKER_UNREACHABLE when nothing comes for PATIENCE_SECONDS; else as ``client.translated``.
    """
    heard = Heard()
    try:
        consumer = confluent_kafka.Consumer(client_config(settings, {}, dict(_FIXED), heard))
    except (KafkaException, ValueError, TypeError) as error:
        raise bad_options(settings, error) from None
    try:
        consumer.assign([TopicPartition(topic, partition, start)])
        return _read(settings, consumer, heard, start, until)
    except KafkaException as error:
        raise translated(settings, error, f"reading {topic}/{partition} again") from None
    finally:
        consumer.close()


def _read(settings: Settings, consumer: confluent_kafka.Consumer, heard: Heard, start: int, until: int) -> Reread:
    found, reached, doing = list[int](), start, f"reading offsets {start} to {until - 1} again"
    deadline = time.monotonic() + PATIENCE_SECONDS
    while reached < until:
        if heard.refused:
            raise translated(settings, heard.refused, doing)
        if time.monotonic() > deadline:
            raise unreachable(settings, doing, f"nothing came for {PATIENCE_SECONDS:.0f} s")
        messages = consumer.consume(_AT_ONCE, timeout=0.5)
        if messages:
            deadline = time.monotonic() + PATIENCE_SECONDS
        for message in messages:
            error, offset = message.error(), message.offset()
            if error is None and offset is not None:
                found.append(offset)
                reached = max(reached, offset + 1)
            elif error is not None and error.code() == KafkaError._PARTITION_EOF and offset is not None:
                return Reread(_within(found, until), max(reached, offset))
            elif error is not None and error.code() in _GONE:
                return Reread(_within(found, until), reached)
            elif error is not None and not error.retriable():
                raise translated(settings, error, doing)
    return Reread(_within(found, until), reached)


def _within(offsets: Iterable[int], until: int) -> tuple[int, ...]:
    return tuple(offset for offset in offsets if offset < until)
