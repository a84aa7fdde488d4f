"""Records through landing's own code (decoding, duplicates, epochs, the commit), without a broker: what Spark's source
would have written into the checkpoint is written here."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from anabranch.contracts import Topic
from anabranch.core.engine.spark import small
from anabranch.core.settings import Settings
from anabranch.ingest.landing.decoding import decode, decode_fast, raw_frame
from anabranch.ingest.landing.state import open_landing
from anabranch.ingest.landing.stream import STREAM_CONF, take_turn
from anabranch.ingest.landing.writer import LandingWriter
from anabranch.lake.layout import landing_checkpoint

from support.naive_reader import Record

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class LandedBytes:
    """One topic's landing, with all of its records decoded beforehand: what a record says doesn't hang on its epoch."""

    def __init__(self, settings: Settings, topic: Topic, decoded: DataFrame, *, fast: bool) -> None:
        self.topic, self._decoded = topic, decoded
        self._checkpoint = landing_checkpoint(settings, topic.name)
        turn = take_turn(settings, topic)
        table = open_landing(settings, topic)
        self._writer = LandingWriter(settings, topic, table, self._checkpoint, "", turn, decoded_fast=fast)
        self._ends = dict.fromkeys(range(topic.partitions), 0)
        self._batch = -1
        self._write("metadata", json.dumps({"id": f"of-{topic.name}"}))
        self._write("sources/0/0", f"v1\n{self._said()}")

    def land(self, records: Sequence[Record]) -> None:
        """``records`` become the next epoch: all up to the last offset of each partition."""
        before = dict(self._ends)
        for record in records:
            self._ends[record.partition] = record.offset + 1
        self._batch += 1
        self._write(f"offsets/{self._batch}", f'v1\n{{"batchWatermarkMs":0,"batchTimestampMs":0}}\n{self._said()}')
        inside = (f"(partition = {p} AND offset >= {before[p]} AND offset < {end})" for p, end in self._ends.items())
        self._writer(self._decoded.where(" OR ".join(inside)), self._batch)

    def _said(self) -> str:
        return json.dumps({self.topic.name: {str(p): end for p, end in self._ends.items()}})

    def _write(self, name: str, text: str) -> None:
        path = self._checkpoint / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@contextmanager
def landing_of(
    spark: SparkSession, settings: Settings, topic: Topic, records: Sequence[Record]
) -> Iterator[LandedBytes]:
    """For the length of a block ``records`` are there to be landed."""
    own = small(spark, {**STREAM_CONF, "spark.sql.shuffle.partitions": "1"})
    frame = raw_frame(own, topic, [_raw(record) for record in records])
    fast = decode_fast(frame, topic)
    decoded = (decode(frame, topic) if fast is None else fast).persist()
    try:
        yield LandedBytes(settings, topic, decoded, fast=fast is not None)
    finally:
        decoded.unpersist()


def _raw(record: Record) -> dict[str, Any]:
    appended = int(record.append_time.timestamp()) * 1_000_000 + record.append_time.microsecond
    known = {"partition": record.partition, "offset": record.offset, "append_time": appended}
    return {**known, "key": record.key, "value": record.value, "headers": record.headers}
