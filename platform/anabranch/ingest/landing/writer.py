"""Writes one micro-batch of the log as one epoch: one commit that holds every record of it exactly once."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from anabranch.contracts import Topic
from anabranch.core.engine.liveness import Batches
from anabranch.core.errors import AnabranchError, BrokenState
from anabranch.core.settings import Settings
from anabranch.core.storage import storage_of
from anabranch.ingest.kafka.record_offsets import reread
from anabranch.ingest.landing._decode_fallback import decode_again, doubtful, replace_doubtful
from anabranch.ingest.landing._weight import Weight
from anabranch.ingest.landing.checkpoint import first_offsets, kafka_offsets, not_yet_landed
from anabranch.ingest.landing.decoding import with_reasons
from anabranch.ingest.landing.duplicates import IDENTITY, Duplicates, mark_duplicates, read_columns, without_duplicates
from anabranch.ingest.landing.empty_offsets import (
    Ranges,
    add_counts,
    count_offsets,
    empty_ranges,
    ranges_note,
    unproven,
)
from anabranch.ingest.landing.epochs import SUMMARY_COLUMNS, Epochs, arrow_with_epoch, with_epoch
from anabranch.ingest.landing.log_trimming import LogTrimmer
from anabranch.ingest.landing.state import LandingState, read_state, writer_of
from anabranch.ingest.landing.table.schema import EVENT_DATE, INDEXED, epoch_build, landing_schema
from anabranch.lake import open_table
from anabranch.lake.files import StagedFile, parquet_file, restage, stage_arrow, stage_frame
from anabranch.lake.log.delta_tables import folder_of
from anabranch.lake.optimistic import until_committed
from anabranch.lake.streams.batch_failures import BatchFailure
from anabranch.lake.streams.stream_checkpoint import BatchPlan, batch_plan, checkpoint_id
from anabranch.lake.streams.writer_fencing import WriterFence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LOGGER = logging.getLogger(__name__)


@dataclass
class LandingWriter:
    """The function of landing's ``foreachBatch``.

    Called once per micro-batch, and again with the same offsets after a crash: offsets that the newest commit's
    metadata already covers are not written again. If a micro-batch begins before the landed offsets (an older
    checkpoint was restored), only the rest of it is landed. ``failure`` keeps the Python error that stopped the stream,
    because Spark only passes on its text. ``log`` is the broker's id of the topic. Raises Conflict FENCED if another
    process has taken over (``turn``). ``after_epoch`` is called after each epoch with the time of its begin (monotonic
    clock). ``decoded_fast``: the rows come from ``decode_fast``.
    """

    settings: Settings
    topic: Topic
    table: DeltaTable
    checkpoint: Path
    log: str
    turn: WriterFence
    after_epoch: Callable[[float], None] = lambda _: None
    decoded_fast: bool = False

    def __post_init__(self) -> None:
        self.failure: AnabranchError | None = None
        self._committed: int | None = None
        self.batches = Batches()
        self._duplicates = Duplicates(self.settings, self.topic, self.table, self.batches.step)
        self._log_length = LogTrimmer(self.settings, self.table)
        self._epochs = Epochs(self.table, self.topic)
        self._weight = Weight(self.settings, self.topic)
        self._uri = str(folder_of(self.table))

    def __call__(self, decided: DataFrame, batch_id: int) -> None:
        begun = time.monotonic()
        with self.batches.processing(batch_id):
            self._process(decided, batch_id)
        self.after_epoch(begun)

    def _process(self, decided: DataFrame, batch_id: int) -> None:
        self._committed = None
        try:
            self._write(decided, batch_id)
        except AnabranchError as error:
            if self._committed is None:  # it says itself where the micro-batch is
                self.failure = error
                raise
            self.failure = self._behind(batch_id, error, self._committed)
            raise self.failure from error
        except BaseException as error:
            self.failure = self._failure(batch_id, error)
            raise self.failure from error

    def _failure(self, batch: int, error: BaseException) -> BrokenState:
        """An error of the engine, of the disk, or a signal: it says nothing of the commit, so the table is read."""
        failed, topic = self._failed(batch, error), self.topic.name
        try:
            epoch = self._epoch_with(batch) if self._committed is None else self._committed
        except Exception as unread:
            again = "landing restarts by itself, looks into the table, and lands what isn't in it"
            return failed.unknown("this micro-batch is in the table", unread, again, topic=topic)
        if epoch is not None:
            return self._behind(batch, error, epoch)
        return failed.before_commit(
            "nothing of this micro-batch is in the table, which ends at the epoch before",
            "fix the cause; landing restarts by itself, and continues with the same records",
            topic=topic,
        )

    def _failed(self, batch: int, error: BaseException) -> BatchFailure:
        return BatchFailure(f"landing of {self.topic.name}", batch, error)

    def _behind(self, batch: int, error: BaseException, epoch: int) -> BrokenState:
        state = f"this micro-batch is in the table, by epoch {epoch}"
        again = "landing restarts by itself, and this micro-batch isn't landed twice"
        return self._failed(batch, error).behind_commit(state, again, topic=self.topic.name, epoch=epoch)

    def _epoch_with(self, batch: int) -> int | None:
        """The table's newest epoch, if all offsets of micro-batch ``batch`` are landed by then; None if they aren't."""
        end, table = kafka_offsets(batch_plan(self.checkpoint, batch), self.topic.in_kafka), open_table(self._uri)
        state = read_state(table, self.topic) if table is not None else None
        landed = state is not None and all(state.offsets.get(p, 0) >= until for p, until in end.items())
        return state.epoch if state is not None and landed and state.offsets else None

    def _write(self, decided: DataFrame, batch_id: int) -> None:
        plan = batch_plan(self.checkpoint, batch_id)
        end = kafka_offsets(plan, self.topic.in_kafka)

        def attempt() -> None:
            self.turn.check()
            self.table.update_incremental()
            self._land(decided, plan, end)

        # If a release from quarantine commits in between, it takes this epoch's number, and this is tried again.
        until_committed(writer_of(self.topic), attempt)

    def _land(self, decided: DataFrame, plan: BatchPlan, end: Mapping[int, int]) -> None:
        before = read_state(self.table, self.topic)
        if all(before.offsets.get(p, 0) >= until for p, until in end.items()) and before.offsets:
            LOGGER.warning("%s: batch %d is already landed (epoch %d)", self.topic.name, plan.batch_id, before.epoch)
            return
        start = self._batch_begin(plan.batch_id)
        gap = {p: (before.offsets[p], o) for p, o in start.items() if p in before.offsets and o > before.offsets[p]}
        if gap:
            raise BrokenState(
                "OFFSET_GAP",
                f"{self.topic.name}: the checkpoint has skipped offsets that were never landed: {gap}",
                state="nothing of this micro-batch was written",
                next_step=f"move {self.checkpoint} away and start again: landing continues from its table",
                gap=gap,
            )
        first = dict(before.offsets) if before.offsets else dict(start)
        # An older checkpoint may be behind the landed offsets in one partition and ahead of them in another.
        end = {p: max(until, before.offsets.get(p, 0)) for p, until in end.items()}
        behind = any(o < first.get(p, 0) for p, o in start.items())
        self._duplicates.catch_up()
        self._commit(not_yet_landed(decided, before.offsets) if behind else decided, before, plan, first, end)

    def _batch_begin(self, batch_id: int) -> dict[int, int]:
        if batch_id == 0:
            return first_offsets(self.checkpoint, self.topic.in_kafka)
        return kafka_offsets(batch_plan(self.checkpoint, batch_id - 1), self.topic.in_kafka)

    def _commit(
        self, rows: DataFrame, before: LandingState, plan: BatchPlan, first: Mapping[int, int], end: Mapping[int, int]
    ) -> None:
        build = epoch_build(before.epoch + 1)
        expected = sum(o - first.get(p, 0) for p, o in end.items())
        staged, judged = self._stage(rows, before, build, expected)
        holes = self._holes(judged, first, end) if judged.num_rows != expected else {}
        begin = {p: first.get(p, 0) for p in end if p not in before.offsets}
        without = add_counts(before.holes, count_offsets(holes))
        known = replace(before, begin={**begin, **before.begin}, holes=without, log=self.log)
        batch = f"{checkpoint_id(self.checkpoint)}:{plan.batch_id}"
        self._epochs.commit(staged, judged, known, batch, ranges_note(holes), {**before.offsets, **end})
        self._committed = known.epoch + 1
        self._duplicates.record_committed()
        self._log_length.committed()

    def _holes(self, judged: pa.Table, first: Mapping[int, int], end: Mapping[int, int]) -> Ranges:
        """The offsets of the micro-batch that hold no record, all of them proven. Raises BrokenState EPOCH_INCOMPLETE,
        and what ``reread`` raises."""
        empty = empty_ranges(judged, first, end)
        doubtful = unproven(empty, partial(reread, self.settings, self.topic.in_kafka))
        expected, without = sum(o - first.get(p, 0) for p, o in end.items()), sum(count_offsets(empty).values())
        if doubtful or judged.num_rows + without != expected:
            raise BrokenState(
                "EPOCH_INCOMPLETE",
                f"{self.topic.name}: {expected} offsets, but {judged.num_rows} records, and {without} offsets without "
                f"one; missing (first offset, and the one after the last): {_few(doubtful)}",
                state="nothing of this micro-batch was written",
                next_step=f"nothing: it is read again. If it fails again: anabranch landing verify {self.topic.name}",
                topic=self.topic.name,
                missing=doubtful,
            )
        return empty

    def _stage(
        self, rows: DataFrame, before: LandingState, build: str, expected: int
    ) -> tuple[list[StagedFile], pa.Table]:
        if expected <= self.settings.small_commit_rows and self._weight.are_few(expected):
            data = arrow_with_epoch(rows.toArrow(), before, self.topic)
            if (again := self._decoded_again(rows, data, before)) is not None:
                data = replace_doubtful(data, again)
            self._weight.seen(data["value"].nbytes, data.num_rows)
            data = mark_duplicates(data, self._duplicates.find_duplicates(data))
            return stage_arrow(data, self._uri, build, EVENT_DATE, INDEXED), data.select(SUMMARY_COLUMNS)
        staged = stage_frame(with_epoch(rows, before, self.topic), self._uri, build, EVENT_DATE)
        self._weight.seen_in(self._uri, staged)
        # Quarantined records have no event date, so they have files of their own.
        refused = [file for file in staged if not file.partition[EVENT_DATE]]
        staged = [file for file in staged if file.partition[EVENT_DATE]]
        for number, file in enumerate(refused):
            staged += self._explained(rows, file, before, f"{build}-again-{number}")
        judged = read_columns(
            self._uri, staged, list(dict.fromkeys([*SUMMARY_COLUMNS, *IDENTITY])), landing_schema(self.topic)
        )
        repeats = self._duplicates.find_duplicates(judged)
        mended = without_duplicates(self._uri, staged, repeats, landing_schema(self.topic), f"{build}-duplicates")
        return mended, mark_duplicates(judged, repeats).select(SUMMARY_COLUMNS)

    def _explained(self, rows: DataFrame, file: StagedFile, before: LandingState, build: str) -> list[StagedFile]:
        path = Path(self._uri) / file.path
        with parquet_file(path) as opened:
            data = with_reasons(opened.read(), self.topic)
        if (again := self._decoded_again(rows, data, before)) is None:
            return [restage(data, self._uri, file)]
        staged = stage_arrow(again, self._uri, build, EVENT_DATE, INDEXED)
        kept = data.filter(pc.invert(doubtful(data)))
        if kept.num_rows:
            return [*staged, restage(kept, self._uri, file)]
        storage_of(path).remove(path)
        return staged

    def _decoded_again(self, rows: DataFrame, data: pa.Table, before: LandingState) -> pa.Table | None:
        if not self.decoded_fast or (again := decode_again(rows.sparkSession, data, self.topic)) is None:
            return None
        return arrow_with_epoch(again, before, self.topic)


def _few(ranges: Ranges) -> str:
    """The first ranges of each partition: there may be one for each offset."""
    shown = {partition: list(each[:5]) for partition, each in ranges.items()}
    more = sum(len(each) for each in ranges.values()) - sum(len(each) for each in shown.values())
    return f"{shown}" + (f" and {more} more" if more else "")
