"""Mirror of a landing table whose typed data is decoded again from the log's bytes, as far back as the log reaches."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from anabranch.change.replay.landing_mirror import Mirror
from anabranch.contracts import Topic
from anabranch.core.errors import AnabranchError, BadInput, BrokenState, root_cause
from anabranch.core.settings import Settings
from anabranch.core.storage import storage_of
from anabranch.ingest.kafka.admin import begin_offsets
from anabranch.ingest.kafka.client import unreachable
from anabranch.ingest.landing.decoding import decode
from anabranch.ingest.landing.kafka_source import read_range
from anabranch.ingest.landing.table.schema import EVENT_DATE, QUARANTINED, VALID
from anabranch.lake.files import StagedFile, stage_frame
from anabranch.lake.log.delta_tables import data_path

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


DIFFERS: Final = "the log has different bytes than landing"
_NO_ANSWER: Final = re.compile(
    r"org\.apache\.kafka\.common\.errors\.(Timeout|Disconnect|Network|BrokerNotAvailable|Coordinator\w+)Exception"
    r"|TimeoutException: Cannot fetch record"
)
_SLICE: Final = "slice.json"


@dataclass(frozen=True, slots=True)
class TopicSource:
    """The log of ``topic``, and the session and settings to read it with."""

    spark: SparkSession
    settings: Settings
    topic: Topic


class LogMirror(Mirror):
    """As Mirror, but the typed data of each record is decoded from the log's bytes.

    Landing's decisions about a record (epoch, valid, late, event time) are kept, because they are made once. A record
    that the log no longer has is taken from landing. Raises BrokenState LOG_DIFFERS if the log's bytes of a record
    aren't those that were landed; TryAgain BROKER_UNREACHABLE.
    """

    def __init__(self, landing: str, folder: Path, log: TopicSource) -> None:
        self._source = log
        self.reread = 0
        """How many offsets of the log this process has read."""
        super().__init__(landing, folder)

    def release(self, version: int) -> None:
        """Make the commits up to ``version`` visible. One pass decodes all of their records, and the last commit gets
        all files: a stream that looks in between sees no row of an epoch that its cut doesn't cover. After a kill in
        between, the next call decodes the records of the whole slice again."""
        if version <= self.released:
            return
        first = self._begin_slice(version)
        added = self._decode_again(range(first, version + 1))
        for number in range(self.released + 1, version + 1):
            kept = [a for a in self._actions(number) if not {"add", "remove"} & a.keys()]
            actions = [a for a in kept if "metaData" not in a or number > self._schema_of]
            self._commit(number, [*actions, *(added if number == version else ())])
            self.released = number

    def _begin_slice(self, last: int) -> int:
        """Record the slice that ends with version ``last``, and return its first version: that of a slice that a kill
        has left incomplete, if there is one."""
        path, first = self._folder / _SLICE, self.released + 1
        storage = storage_of(path)
        if storage.exists(path):
            known = json.loads(storage.read(path))
            first = known["first"] if self.released < known["last"] else first
        storage.write(path, json.dumps({"first": first, "last": last}).encode())
        return first

    def _base(self, commits: Sequence[int]) -> tuple[int, int]:
        base, schema_of = super()._base(commits)
        if base > 0:
            raise BadInput(
                "LOG_SHORT",
                f"parameter source: the commits of {self._landing} no longer reach back to its first epoch",
                state="nothing was started",
                next_step="replay from landing",
                field="source",
            )
        return base, schema_of

    def _link_data(self) -> None:
        """Does nothing: this mirror has its own data files."""

    def _decode_again(self, versions: Iterable[int]) -> list[dict[str, Any]]:
        files, offsets = list[str](), dict[int, tuple[int, int]]()
        for version in versions:
            for action in self._actions(version):
                if action.get("add", {}).get("dataChange"):
                    files.append(str(data_path(self._landing, action["add"]["path"])))
            for partition, (begin, end) in self._offsets(version).items():
                offsets[partition] = (offsets.get(partition, (begin, end))[0], end)
        if not files:
            return []
        rows = self._rows(files, offsets)
        try:
            staged = stage_frame(rows, self.uri, f"relanded-{time.time_ns()}", EVENT_DATE)
        except Exception as error:
            if (failure := self._failure(error)) is not None:
                raise failure from error
            raise
        return [{"add": _add(file)} for file in staged]

    def _failure(self, error: Exception) -> AnabranchError | None:
        """Return what the log itself has caused: other bytes than landing's, or no answer. None for another error."""
        topic, settings = self._source.topic.name, self._source.settings
        cause = next((each for each in (error, error.__cause__) if DIFFERS in str(each)), None)
        if cause is not None:
            return BrokenState(
                "LOG_DIFFERS",
                f"{topic} can't be replayed from the log: {root_cause(cause)}",
                state="nothing was published; readers keep what they had",
                next_step=f"anabranch landing verify {topic}; or replay from landing",
            )
        cause = next((each for each in (error, error.__cause__) if _NO_ANSWER.search(str(each))), None)
        return unreachable(settings, f"reading {topic} again", root_cause(cause)) if cause is not None else None

    def _offsets(self, version: int) -> dict[int, tuple[int, int]]:
        """Return the offsets that the commit landed, per partition: the first one, and the one after the last."""
        commit, before = self._landed(version), self._landed(version - 1) if version else None
        if commit.cut is None or not commit.cut.positions:
            return {}
        (position,) = commit.cut.positions.values()
        begins: Mapping[int, int] = {}
        if before is not None and before.cut is not None and before.cut.positions:
            begins = next(iter(before.cut.positions.values())).offsets
        return {p: (begins.get(p, 0), end) for p, end in position.offsets.items() if end > begins.get(p, 0)}

    def _rows(self, files: list[str], offsets: Mapping[int, tuple[int, int]]) -> DataFrame:
        from pyspark.sql import functions as F

        spark, topic = self._source.spark, self._source.topic
        schema = spark.read.format("delta").load(str(self._landing)).drop(EVENT_DATE).schema
        landed = spark.read.schema(schema).option("recursiveFileLookup", "true").parquet(*files)
        oldest = begin_offsets(self._source.settings, topic.in_kafka)
        available = {p: (max(a, oldest.get(p, 0)), b) for p, (a, b) in offsets.items() if b > oldest.get(p, 0)}
        dated = landed.withColumn(EVENT_DATE, F.to_date("event_time"))
        if not available:
            return dated
        self.reread += sum(b - a for a, b in available.values())
        typed = [topic.newest(name).column for name in topic.event_types]
        decoded = decode(read_range(spark, self._source.settings, topic, available), topic)
        log = decoded.select(F.struct("partition", "offset", "value", "headers", "decision", *typed).alias("log"))
        same = (F.col("log.partition") == F.col("partition")) & (F.col("log.offset") == F.col("offset"))
        joined = dated.join(log, same & F.col("released_from").isNull(), "left")
        readable = (F.col("log.decision") == VALID) & (F.col("decision") != QUARANTINED)
        columns = {name: F.when(readable, F.col(f"log.{name}")).otherwise(F.col(name)).alias(name) for name in typed}
        columns["value"] = _checked_value("headers" in dated.columns)
        return joined.select(*(columns.get(name, F.col(name)) for name in dated.columns))


def _checked_value(has_headers: bool) -> Column:
    """Return landing's bytes; the query fails if the log has different bytes or headers. Rows that landed before
    landing kept headers have none."""
    from pyspark.sql import functions as F

    differs = ~F.col("log.value").eqNullSafe(F.col("value"))
    if has_headers:
        differs |= F.col("headers").isNotNull() & ~F.col("log.headers").eqNullSafe(F.col("headers"))
    differs = F.col("log").isNotNull() & differs
    message = F.concat(F.lit(f"{DIFFERS} in partition "), "partition", F.lit(" at offset "), "offset")
    return F.when(differs, F.raise_error(message).cast("binary")).otherwise(F.col("value")).alias("value")


def _add(file: StagedFile) -> dict[str, Any]:
    return {
        "path": file.path,
        "partitionValues": dict(file.partition),
        "size": file.size,
        "modificationTime": int(time.time() * 1000),
        "dataChange": True,
        "stats": file.stats,
    }
