"""Reads which offsets of a range hold a record, with a client that is independent of Spark's."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import KafkaError, Message

from anabranch.core.settings import Settings
from anabranch.ingest.kafka._assigned_consumer import PATIENCE_SECONDS, assigned, is_end
from anabranch.ingest.kafka.client import translate_error, unreachable

_AT_ONCE: Final = 10_000
_GONE: Final = {KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET}


@dataclass(frozen=True, slots=True)
class Reread:
    """The result of reading one partition: ``offsets`` of the records received, in order. All records before
    ``reached`` were received."""

    offsets: tuple[int, ...]
    reached: int


@dataclass
class _Partition:
    reached: int
    until: int
    offsets: list[int] = field(default_factory=list)
    ended: bool = False

    @property
    def done(self) -> bool:
        return self.ended or self.reached >= self.until


def reread(settings: Settings, topic: str, spans: Mapping[int, tuple[int, int]]) -> dict[int, Reread]:
    """Read each partition from the first offset of its span until a record, or the end of what is readable, is at or
    after the second offset. ``reached`` is less if that end comes first, or if the log no longer holds the first
    offset.

    Raises BROKER_UNREACHABLE if nothing comes for PATIENCE_SECONDS; other errors as ``client.translate_error``.
    """
    doing = f"reading offsets of {topic} again"
    partitions = {p: _Partition(first, until) for p, (first, until) in spans.items()}
    begin = {p: first for p, (first, _) in spans.items()}
    with assigned(settings, topic, begin, doing, gone="error") as (consumer, heard):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not all(partition.done for partition in partitions.values()):
            if heard.refused:
                raise translate_error(settings, heard.refused, doing)
            if time.monotonic() > deadline:
                raise unreachable(settings, doing, f"nothing came for {PATIENCE_SECONDS:.0f} s")
            first = consumer.poll(0.5)
            if first is None:
                continue
            deadline = time.monotonic() + PATIENCE_SECONDS
            for message in (first, *consumer.consume(_AT_ONCE, timeout=0)):  # what was received together with it
                if wrong := _take(message, partitions):
                    raise translate_error(settings, wrong, doing)
    return {p: Reread(tuple(o for o in each.offsets if o < each.until), each.reached) for p, each in partitions.items()}


def _take(message: Message, partitions: Mapping[int, _Partition]) -> KafkaError | None:
    """Record a message for its partition; returns an error that ends the reading."""
    error, offset = message.error(), message.offset()
    here = partitions.get(-1 if (number := message.partition()) is None else number)
    if here is not None and here.done:
        return None
    if error is None and here is not None and offset is not None:
        here.offsets.append(offset)
        here.reached = max(here.reached, offset + 1)
    elif is_end(message) and here is not None and offset is not None:
        here.reached, here.ended = max(here.reached, offset), True
    elif error is not None and error.code() in _GONE and here is not None:
        here.ended = True
    elif error is not None and not error.retriable():
        return error
    return None
