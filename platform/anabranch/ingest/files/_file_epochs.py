"""Lands the rows of a prepared file: decoded outside of any commit, committed as epochs of their own.

A running landing commits each second, so an attempt to commit must be short: it adds the epoch's number, looks for
duplicates among what has landed by then, writes the files and commits.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from anabranch.contracts import Topic
from anabranch.core.errors import TryAgain
from anabranch.core.settings import Settings
from anabranch.ingest.files._prepare import Part, Prepared
from anabranch.ingest.files._problems import count_problems, merge
from anabranch.ingest.landing.decoding import decode, with_reasons
from anabranch.ingest.landing.duplicates import Duplicates, mark_duplicates
from anabranch.ingest.landing.epochs import TRIES_BESIDE_LANDING, Epochs, numbered
from anabranch.ingest.landing.loaded_files import LoadedFile, Loads, as_loaded, file_note
from anabranch.ingest.landing.state import LandingState, read_state, writer_of
from anabranch.ingest.landing.table.schema import EVENT_DATE, HEADERS_DDL, INDEXED, epoch_build
from anabranch.lake.files import StagedFile, stage_arrow
from anabranch.lake.log.delta_tables import folder_of
from anabranch.lake.optimistic import until_committed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class FileEpochs:
    """Lands rows of one topic's files. ``spark``: a session with landing's settings. ``landed`` is called with the
    number of rows after each epoch."""

    spark: SparkSession
    settings: Settings
    topic: Topic
    table: DeltaTable
    landed: Callable[[int], None] = lambda _: None

    def __post_init__(self) -> None:
        self._duplicates = Duplicates(self.settings, self.topic, self.table, every_age=True)
        self._uri = str(folder_of(self.table))
        self._epochs = Epochs(self.table, self.topic)

    def land(self, file: LoadedFile, kind: str, prepared: Prepared, loads: Loads) -> tuple[Counter[str], Counter[str]]:
        """Land the rows of ``file`` that haven't landed by ``loads``. Returns the number of rows by decision, and the
        problems. Raises TryAgain LOAD_RUNNING if another process loads into this topic."""
        begun = loads.open[file.number].next_row if file.number in loads.open else 0
        decisions, problems = Counter[str](), Counter[str]()
        for part in prepared.parts:
            if part.until <= begun:
                continue
            first = max(part.first, begun)
            decided = self._decode(file, part, first)
            problems = merge(problems, count_problems(decided, kind))
            decisions += self._commit(file, first, part.until, decided, loads)
            loads = loads.after(file, part.until)
            self.landed(part.until - first)
        return decisions, problems

    def _decode(self, file: LoadedFile, part: Part, first: int) -> pa.Table:
        """The landing columns of the rows, in the order of their days, with reasons, without epoch."""
        from pyspark.sql import functions as F

        now = datetime.now(UTC)
        rows = self.spark.read.parquet(str(part.path)).where(F.col("offset") >= first)
        records = rows.select(
            F.lit(self.topic.name).alias("topic"),
            F.lit(file.partition).cast("int").alias("partition"),
            "offset",
            F.timestamp_micros(F.lit(int(now.timestamp() * 1_000_000))).alias("append_time"),
            F.lit(None).cast("binary").alias("key"),
            "value",
            F.lit(None).cast(HEADERS_DDL).alias("headers"),
        )
        decoded = part.path.with_suffix(".decoded")
        shutil.rmtree(decoded, ignore_errors=True)
        decode(records, self.topic).write.mode("overwrite").parquet(str(decoded))
        table = pa.concat_tables(
            (pq.read_table(path, partitioning=None) for path in sorted(decoded.glob("*.parquet"))),
            promote_options="permissive",
        )
        shutil.rmtree(decoded)
        return with_reasons(table.sort_by([(EVENT_DATE, "ascending"), ("offset", "ascending")]), self.topic)

    def _commit(self, file: LoadedFile, first: int, until: int, decided: pa.Table, loads: Loads) -> Counter[str]:
        def attempt() -> Counter[str]:
            self.table.update_incremental()
            before = read_state(self.table, self.topic)
            if before.loads != loads:
                raise other_load(self.topic)
            return self._append(file, first, until, decided, before)

        return until_committed(writer_of(self.topic), attempt, TRIES_BESIDE_LANDING)

    def _append(
        self, file: LoadedFile, first: int, until: int, decided: pa.Table, before: LandingState
    ) -> Counter[str]:
        rows = numbered(decided, before, self.topic)
        self._duplicates.catch_up()
        rows = as_loaded(mark_duplicates(rows, self._duplicates.find_duplicates(rows)))
        staged = stage_days(rows, self._uri, epoch_build(before.epoch + 1))
        known = replace(before, loads=before.loads.after(file, until))
        batch = f"load:{file.sha256[:16]}:{first}"
        said = self._epochs.commit(staged, rows, known, batch, file_note(file, first, until))
        self._duplicates.record_committed()
        return Counter({name: count for name, count in said["counts"].items() if name != "late"})


def stage_days(rows: pa.Table, uri: str, build: str) -> list[StagedFile]:
    """Stage ``rows``, which are in the order of their days, one file a day. (``stage_arrow`` compares every row with
    every day.) Those without a day, of the quarantine and duplicates, make one file."""
    days = rows[EVENT_DATE].cast(pa.int32()).to_numpy(zero_copy_only=False)
    dated = np.flatnonzero(~np.isnan(days.astype(float)))
    slices = [rows.filter(rows[EVENT_DATE].is_null())]
    if len(dated):
        ordered = rows.take(pa.array(dated))
        values = ordered[EVENT_DATE].cast(pa.int32()).to_numpy()
        edges = [0, *(np.flatnonzero(np.diff(values)) + 1).tolist(), len(values)]
        slices += [ordered.slice(a, b - a) for a, b in pairwise(edges)]
    return [file for part in slices if part.num_rows for file in stage_arrow(part, uri, build, EVENT_DATE, INDEXED)]


def other_load(topic: Topic) -> TryAgain:
    return TryAgain(
        "LOAD_RUNNING",
        f"another process loads files into {topic.name}",
        state="nothing more was loaded by this one",
        next_step="wait until it has ended; then load the same again: what has landed is skipped",
    )
