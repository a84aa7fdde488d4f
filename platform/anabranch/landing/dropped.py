"""The records that Spark's duplicate operator dropped: read again from the log, and only those.

The operator keeps no account of what it drops. The offsets of the micro-batch, less those that came out of it, say
exactly which records are missing; each of them is landed too, as a duplicate.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, Message, TopicPartition

from anabranch.errors import BrokenState, TryAgain
from anabranch.events import Topic
from anabranch.landing.schema import DUPLICATE, landing_schema
from anabranch.log.client import client_config
from anabranch.settings import Settings

_NAMES = {"event_id": "id", "source": "source", "type": "type", "subject": "subject"}
_UNWRITTEN = "nothing of this micro-batch was written"
PATIENCE = 60.0
"""Seconds without any answer from the broker after which reading gives up."""


def missing_offsets(kept: pa.Table, begin: Mapping[int, int], end: Mapping[int, int]) -> dict[int, list[int]]:
    """Offsets of [begin, end) that are not among ``kept`` (columns partition, offset), per partition."""
    missing: dict[int, list[int]] = {}
    for partition, until in end.items():
        start = begin.get(partition, 0)
        here = kept.filter(pc.equal(kept["partition"], partition))["offset"]
        if len(here) < until - start:
            lost = set(range(start, until)) - set(here.to_pylist())
            missing[partition] = sorted(lost)
    return missing


class LogReader:
    """Reads single records of the log again by their offsets. One connection, kept over the micro-batches."""

    def __init__(self, settings: Settings, topic: Topic) -> None:
        self._topic = topic
        self._config = client_config(
            settings,
            {},
            {
                "group.id": "anabranch-landing-read",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 20,
            },
        )
        self._consumer: Consumer | None = None

    def read(self, wanted: Mapping[int, Sequence[int]]) -> list[dict[str, Any]]:
        """The records at these offsets: partition, offset, append_time (microseconds), key and value bytes.

        LOG_SILENT after a minute without an answer, OFFSETS_MISSING when the log doesn't hold one of them any more.
        """
        consumer = self._consumer = self._consumer or Consumer(self._config)
        left = {partition: set(offsets) for partition, offsets in wanted.items()}
        consumer.assign([TopicPartition(self._topic.name, p, min(offsets)) for p, offsets in left.items()])
        found: list[dict[str, Any]] = []
        heard = time.monotonic()
        while left:
            message = consumer.poll(1.0)
            if message is None:
                if time.monotonic() - heard > PATIENCE:
                    raise self._silent(left)
                continue
            heard = time.monotonic()
            if message.error():
                raise TryAgain("LOG_UNREADABLE", f"{self._topic.name}: {message.error()}", state=_UNWRITTEN)
            record = self._take(message, left)
            if record is not None:
                found.append(record)
        consumer.unassign()
        return found

    def _take(self, message: Message, left: dict[int, set[int]]) -> dict[str, Any] | None:
        partition, offset = int(message.partition() or 0), int(message.offset() or 0)
        asked = left.get(partition)
        if asked is None or (offset not in asked and offset < max(asked)):
            return None
        if offset not in asked:
            raise BrokenState(
                "OFFSETS_MISSING",
                f"{self._topic.name}/{partition}: the log holds no records at {sorted(asked)[:5]} any more",
                state=_UNWRITTEN,
                next_step="anabranch landing verify",
            )
        asked.discard(offset)
        if not asked:
            del left[partition]
        return {
            "partition": partition,
            "offset": offset,
            "append_time": message.timestamp()[1] * 1000,
            "key": message.key(),
            "value": message.value(),
        }

    def _silent(self, left: Mapping[int, set[int]]) -> TryAgain:
        count = sum(map(len, left.values()))
        return TryAgain(
            "LOG_SILENT",
            f"{self._topic.name}: no answer for {PATIENCE:.0f} s while reading {count} records again",
            state=_UNWRITTEN,
            next_step="anabranch status",
        )


def envelope_texts(record: Mapping[str, Any]) -> dict[str, str] | None:
    """The names in a record's envelope; None where Python can't read what Spark can (deep nesting, say)."""
    try:
        envelope = json.loads(record["value"])
        texts: dict[str, str] = {column: envelope[name] for column, name in _NAMES.items()}
        for text in texts.values():
            text.encode()
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return None
    return texts


def duplicate_rows(
    records: Sequence[tuple[Mapping[str, Any], Mapping[str, str]]], topic: Topic, epoch: int
) -> pa.Table:
    """Landing rows of records (with their ``envelope_texts``) that repeat an earlier (source, id): the bytes stay,
    the typed columns are null."""
    fixed = {"topic": topic.name, "epoch": epoch, "decision": DUPLICATE}
    rows = [{**fixed, **record, **texts} for record, texts in records]
    return pa.Table.from_pylist(rows, schema=landing_schema(topic))
