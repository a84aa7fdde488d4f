"""Sends prepared events at a pace, and writes the producer's file: what was sent, with partitions and offsets.

The file is Parquet, one row per acknowledged record: topic, partition, offset, append_time, key, value, event_type (of
the original event, also if a fault broke it; null for malformed records), fault (null for clean ones), publish_time. An
independent check of the platform needs only this file. It appears under its name when the run ends, also by an error or
Ctrl-C, and then has exactly the acknowledged records. A killed run leaves only ``NAME.part``; run it again: the same
ids are sent again, and landing keeps the first of each.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from anabranch.core.errors import BadInput
from anabranch.ingest.kafka import Producer
from confluent_kafka import KafkaError, Message

from anabranch_samples._rendering import render

SLICE = 50_000
_PROGRESS_EVERY = 2_000
_TICK = 0.02
"""The shortest pause of a paced run, in seconds: a pause per event at 1,000 events/s takes half a core."""
_INSTANT = pa.timestamp("us", "UTC")
FILE_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("append_time", _INSTANT),
        ("key", pa.string()),
        ("value", pa.binary()),
        ("event_type", pa.string()),
        ("fault", pa.string()),
        ("publish_time", _INSTANT),
    ]
)


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast to send: ``rate`` records per second, or ``speed`` seconds of publish time per second, or neither (as
    fast as possible)."""

    rate: float | None = None
    speed: float | None = None

    def due(self, events: pl.DataFrame, begin: datetime, already: int) -> np.ndarray[Any, np.dtype[np.float64]] | None:
        """Returns for each event the second of the run at which it is sent; None without a limit."""
        if self.rate is not None:
            return (already + np.arange(events.height)) / self.rate
        if self.speed is not None:
            return (events["publish_time"] - begin).dt.total_microseconds().to_numpy() / 1e6 / self.speed
        return None


@dataclass(slots=True)
class Summary:
    """What a run sent, by the delivery reports."""

    file: Path
    records: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    """Counts by topic, event type ("(malformed)" if none) and partition."""
    faults: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def total(self) -> int:
        return self.records.total()

    def as_dict(self) -> dict[str, Any]:
        rows = [
            {"topic": topic, "event_type": kind, "partition": partition, "records": count}
            for (topic, kind, partition), count in sorted(self.records.items())
        ]
        rate = self.total / self.seconds if self.seconds else 0.0
        return {
            "file": str(self.file),
            "total": self.total,
            "seconds": round(self.seconds, 3),
            "records_per_second": round(rate),
            "records": rows,
            "faults": dict(sorted(self.faults.items())),
        }


class _Receipts:
    """The partitions and offsets of one slice's records, filled in by delivery reports."""

    def __init__(self, size: int) -> None:
        self.partition = np.full(size, -1, np.int32)
        self.offset = np.full(size, -1, np.int64)
        self.append_ms = np.zeros(size, np.int64)
        self.failed: list[KafkaError] = []

    def settle(self, row: int, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(error)
            return
        self.partition[row] = message.partition() or 0
        offset = message.offset()  # None: the broker had it already, sent again by the client, and names no offset
        self.offset[row] = -1 if offset is None else offset
        self.append_ms[row] = message.timestamp()[1]

    def columns(self) -> list[pl.Series]:
        append_time = pl.Series("append_time", self.append_ms).cast(pl.Datetime("ms", "UTC"))
        return [pl.Series("partition", self.partition), pl.Series("offset", self.offset).replace(-1, None), append_time]


def publish(
    producer: Producer,
    events: pl.DataFrame,
    file: Path,
    pace: Pace,
    on_progress: Callable[[int], None] = lambda count: None,
) -> Summary:
    """Sends every event and writes the file. ``on_progress`` gets the number of records queued since its last call.
    Raises DELIVERY_FAILED, EVENT_REFUSED or FILE_EXISTS; the file then has the acknowledged records."""
    summary = Summary(file)
    begin, began = events["publish_time"][0], time.monotonic()
    already = 0
    with _parquet(file) as writer:
        for part in events.iter_slices(SLICE):
            receipts = _Receipts(part.height)
            rendered = render(part)
            try:
                _send(producer, rendered, pace.due(part, begin, already), began, receipts, on_progress)
            finally:
                producer.flush()
                _record(writer, rendered, receipts, summary)
                summary.seconds = time.monotonic() - began
            if receipts.failed:
                raise producer.failure(receipts.failed[0], len(receipts.failed))
            already += part.height
    return summary


def _send(
    producer: Producer,
    records: pl.DataFrame,
    due: np.ndarray[Any, np.dtype[np.float64]] | None,
    began: float,
    receipts: _Receipts,
    on_progress: Callable[[int], None],
) -> None:
    waiting = 0
    rows = records.select("topic", "key", "value", "fault").iter_rows()
    for row, (topic, key, value, fault) in enumerate(rows):
        while due is not None and (pause := began + due[row] - time.monotonic()) > 0:
            producer.poll(min(max(pause, _TICK), 0.1))
            on_progress(waiting)
            waiting = 0
        delivered = partial(receipts.settle, row)
        if fault is None:
            producer.send_prepared(topic, key.encode(), value, delivered)
        else:
            producer.send_raw(topic, None if key is None else key.encode(), value, delivered)
        waiting += 1
        if waiting == _PROGRESS_EVERY:
            on_progress(waiting)
            waiting = 0
            if receipts.failed:
                return
    on_progress(waiting)


def _record(writer: pq.ParquetWriter, records: pl.DataFrame, receipts: _Receipts, summary: Summary) -> None:
    landed = records.with_columns(receipts.columns()).filter(pl.col("partition") >= 0)
    counted = landed.group_by("topic", pl.col("event_type").fill_null("(malformed)"), "partition").len()
    for topic, kind, partition, count in counted.iter_rows():
        summary.records[topic, kind, partition] += count
    summary.faults.update(landed["fault"].drop_nulls().to_list())
    writer.write_table(landed.select(FILE_SCHEMA.names).to_arrow().cast(FILE_SCHEMA))


@contextmanager
def _parquet(file: Path) -> Iterator[pq.ParquetWriter]:
    """Yields a writer of a Parquet file that gets its name when it is complete."""
    if file.exists():
        raise BadInput(
            "FILE_EXISTS",
            f"{file} already exists",
            state="nothing was sent",
            next_step="give --log another name; each run writes its own file",
            file=str(file),
        )
    unfinished = file.with_name(file.name + ".part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        writer = pq.ParquetWriter(unfinished, FILE_SCHEMA, compression="zstd")
    except OSError as error:
        raise BadInput(
            "FILE_UNWRITABLE",
            f"{unfinished} can't be written: {error}",
            state="nothing was sent",
            next_step="give --log a file in a writable folder",
            file=str(file),
        ) from None
    try:
        yield writer
    finally:
        writer.close()  # raises if the disk is full: then the file doesn't get its name
        unfinished.rename(file)
