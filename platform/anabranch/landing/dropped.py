"""The records that Spark's duplicate operator dropped: read again from the log, and only those.

The operator keeps no account of what it drops. The offsets of the micro-batch, less those that came out of it, say
exactly which records are missing; each of them is landed too, as a duplicate.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.errors import BrokenState, TryAgain
from anabranch.events import Topic
from anabranch.landing.schema import DUPLICATE, landing_schema
from anabranch.log.client import client_config
from anabranch.settings import Settings

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


def read_records(settings: Settings, topic: Topic, wanted: Mapping[int, list[int]]) -> list[dict[str, Any]]:
    """The records at these offsets: partition, offset, append_time (microseconds), key and value bytes."""
    from confluent_kafka import Consumer, TopicPartition

    fixed = {"group.id": "anabranch-landing-read", "enable.auto.commit": False, "auto.offset.reset": "error"}
    consumer = Consumer(client_config(settings, {}, fixed))
    found: list[dict[str, Any]] = []
    try:
        for partition, offsets in wanted.items():
            consumer.assign([TopicPartition(topic.name, partition, offsets[0])])
            found += _read_partition(consumer, topic, partition, set(offsets))
    finally:
        consumer.close()
    return found


def _read_partition(consumer: Any, topic: Topic, partition: int, left: set[int]) -> Iterable[dict[str, Any]]:
    found, last, heard = [], max(left), time.monotonic()
    while left:
        messages = consumer.consume(1000, timeout=1.0)
        if not messages and time.monotonic() - heard > PATIENCE:
            raise TryAgain(
                "LOG_SILENT",
                f"{topic.name}/{partition}: no answer for {PATIENCE:.0f} s while reading {len(left)} records again",
                state="nothing of this micro-batch was written",
                next_step="anabranch status",
            )
        for message in messages:
            heard = time.monotonic()
            if message.error():
                raise TryAgain("LOG_UNREADABLE", f"{topic.name}/{partition}: {message.error()}")
            if message.offset() in left:
                left.discard(message.offset())
                found.append(
                    {
                        "partition": partition,
                        "offset": message.offset(),
                        "append_time": message.timestamp()[1] * 1000,
                        "key": message.key(),
                        "value": message.value(),
                    }
                )
            elif left and message.offset() > last:
                raise BrokenState(
                    "OFFSETS_MISSING",
                    f"{topic.name}/{partition}: the log holds no records at {sorted(left)[:5]} any more",
                    state="nothing of this micro-batch was written",
                    next_step="anabranch landing verify",
                )
    return found


def duplicate_rows(records: list[dict[str, Any]], topic: Topic, epoch: int) -> pa.Table:
    """Landing rows of records that repeat an earlier (source, id): the bytes stay, the typed columns are null."""
    rows = []
    for record in records:
        envelope = json.loads(record["value"])
        rows.append(
            {
                "topic": topic.name,
                **record,
                "epoch": epoch,
                "decision": DUPLICATE,
                **{name: envelope[name] for name in ("source", "type", "subject")},
                "event_id": str(envelope["id"]),
            }
        )
    schema = landing_schema(topic)
    return pa.Table.from_pylist(rows, schema=schema)
