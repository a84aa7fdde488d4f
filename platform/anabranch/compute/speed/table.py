"""The speed half of a view: a Delta table that one stream keeps up to date, one commit per micro-batch."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence, Set
from dataclasses import replace as with_fields
from datetime import date
from enum import Enum
from typing import TYPE_CHECKING

import pyarrow as pa
from anabranch.compute.speed.checkpoint_handover import REPLAY, replayed
from anabranch.compute.speed.large_merge import merge_large
from anabranch.core.errors import BadDefinition, BrokenState, Conflict
from anabranch.lake import (
    Commit,
    CommitMetadata,
    Cut,
    StagedFile,
    create,
    latest_commit,
    latest_verified_commit,
    replace,
    stage_frame,
    upsert,
)
from anabranch.lake.writer_fencing import WriterFence
from anabranch.views.definition import EMPTIED, PARTITION_DATE, View
from anabranch.views.partitions import one_file_each, select_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)


class BatchAction(Enum):
    """What a micro-batch is to the table."""

    DONE = "this batch is in already"
    REFRESH = "the first batch of a new checkpoint: it holds everything and replaces the table"
    NEXT = "the batch after the newest one"


class SpeedTable:
    """One view's speed table, kept open by its one writer."""

    def __init__(
        self, uri: str, view: View, schema: pa.Schema, *, mending: bool = False, turn: WriterFence | None = None
    ) -> None:
        """Open the table, or make it. Conflict DEFINITION_CHANGED when another definition wrote it. ``mending``: for
        whoever replaces rows that a stranger may have changed. ``turn``: its stream's, which ends without it."""
        self.view = view
        self._turn = turn
        self._known = latest_commit if mending else latest_verified_commit
        self.partition = None if view.kappa else PARTITION_DATE
        self.uri = uri
        self._table = create(uri, schema, [self.partition] if self.partition else [], self.note("create", Cut()))
        self._check_fingerprint(self.newest())

    def lost(self) -> Conflict | None:
        """Why its stream may write no more; None while it may."""
        return self._turn.lost() if self._turn is not None else None

    def note(self, batch: str, cut: Cut, **extra: object) -> CommitMetadata:
        return CommitMetadata(f"{self.view.writer}/speed", batch, cut, self.view.fingerprint, extra)

    def newest(self) -> Commit:
        """The newest note; the table is at its version from then on: a commit lands right behind it, or not at all."""
        self._table.update_incremental()
        found = self._known(self._table)
        if found is None:
            raise BrokenState(
                "TABLE_GONE",
                f"{self.uri} is no table any more",
                next_step="delete the view's speed checkpoint as well: its stream builds the table again from landing",
            )
        return found

    def step(self, checkpoint: str, batch: int, cut: Cut) -> BatchAction:
        """Decide what batch ``batch`` of ``checkpoint`` is, from the newest note only. Never skips silently:
        DONE is logged, and a batch that is neither repeated, first nor next is an error.

        A checkpoint that was put back counts from an older batch on, and its next one may bring more than the batch of
        that number did: every row that changed since then, so it is merged like any other. Conflict FENCED when another
        process has taken the turn."""
        if self._turn is not None:
            self._turn.check()
        found = self.newest()
        self._check_fingerprint(found)
        owner, _, number = found.note.batch.partition(":")
        if owner == checkpoint and batch <= int(number):
            if found.note.cut.covers(cut):
                log.warning("%s: batch %d is in already (version %d)", self.view.writer, batch, found.version)
                return BatchAction.DONE
            log.warning("%s: the checkpoint was put back; its batch %d goes on to %s", self.view.writer, batch, cut)
            return BatchAction.NEXT
        if owner == checkpoint and batch == int(number) + 1:
            return BatchAction.NEXT
        if owner != checkpoint and batch != 0 and REPLAY in found.note.extra:
            raise replayed(self.view, found.note.extra[REPLAY])
        if owner == checkpoint or batch != 0:
            raise BrokenState(
                "BATCH_MISSING",
                f"{self.view.writer}: batch {batch} of checkpoint {checkpoint} doesn't follow {found.note.batch}",
                state="nothing was written; the table lacks what the batches between had changed",
                next_step="delete the view's speed checkpoint: its stream builds the table again from landing",
                batch=batch,
                newest=found.note.batch,
            )
        if not cut.covers(found.note.cut):
            raise Conflict(
                "CUT_BACKWARDS",
                f"{self.view.writer} is at {found.note.cut}, landing only at {cut}",
                state="nothing was written; readers still see the table as it was",
                next_step="find out why landing is shorter than before; delete the speed table if that is right",
            )
        return BatchAction.REFRESH

    def stage(self, rows: DataFrame, batch: int) -> list[StagedFile]:
        """Write all rows below the table: nobody sees them until ``refresh`` commits them. One file a partition: a
        year is hundreds of them already."""
        rows = rows.repartition(self.partition) if self.partition else rows
        files = stage_frame(rows, self.uri, f"speed-{uuid.uuid4().hex}", self.partition)
        if self.partition and any(file.partition[self.partition] is None for file in files):
            raise self._no_partition(batch)
        return files

    def stage_partitions(self, rows: DataFrame, partitions: Sequence[date]) -> Sequence[StagedFile]:
        """The files of these partitions. Rows of others, which lookback and lookahead brought in, are left out."""
        each = one_file_each(rows, self.view, partitions)
        files = stage_frame(each, self.uri, f"speed-{uuid.uuid4().hex}", PARTITION_DATE)
        return select_files(self.view, self.uri, files, partitions)

    def replace(self, files: Sequence[StagedFile], partitions: Sequence[date], note: CommitMetadata) -> None:
        """Replace these partitions in one commit. None of them is a commit too: the cut moves on."""
        texts = [day.isoformat() for day in partitions]
        replace(self._table, files, self._with_emptied(note, files, set(texts)), (PARTITION_DATE, texts))

    def refresh(self, files: Sequence[StagedFile], note: CommitMetadata) -> None:
        """Replace the whole table by staged files in one commit; readers see the old one until then."""
        replace(self._table, files, self._with_emptied(note, files, None), None)

    def _with_emptied(
        self, note: CommitMetadata, files: Sequence[StagedFile], partitions: Set[str] | None
    ) -> CommitMetadata:
        """The note, with the partitions that lose their last row: a batch half at an older cut would be served there,
        if nothing said that speed knows better."""
        if self.view.refresh != "partitions" or self.partition is None:  # state takes no row back
            return note
        filled = {str(file.partition[PARTITION_DATE]) for file in files}
        held = {str(partition[PARTITION_DATE]) for partition in self._table.partitions()}
        gone = (held if partitions is None else held & partitions) - filled
        epochs = {topic: position.epoch for topic, position in note.cut.positions.items()}
        before = {**self.newest().note.extra.get(EMPTIED, {}), **note.extra.get(EMPTIED, {})}
        emptied = {**before, **dict.fromkeys(sorted(gone), epochs)}
        left = {day: since for day, since in emptied.items() if day not in filled}
        return with_fields(note, extra={**note.extra, EMPTIED: left}) if left else note

    def merge_small(self, rows: pa.Table, batch: int, note: CommitMetadata) -> None:
        """Merge changed rows by key through delta-rs (0.1 s). No row is a commit too: the cut moves on."""
        if self.partition and rows[self.partition].null_count:
            raise self._no_partition(batch)
        upsert(self._table, rows, self.view.key, note, self.partition)

    def merge_large(self, rows: DataFrame, batch: int, note: CommitMetadata) -> None:
        """The same by Spark, for more rows than the driver should hold. ``rows`` must be persisted. Conflict
        TABLE_MOVED as above."""
        dates = []
        if self.partition:
            dates = [row[0] for row in rows.select(self.partition).distinct().collect()]
            if None in dates:
                raise self._no_partition(batch)
        merge_large(self._table, rows, self.view.key, note, self.partition, dates)

    def _check_fingerprint(self, found: Commit) -> None:
        if found.note.fingerprint != self.view.fingerprint:
            raise Conflict(
                "DEFINITION_CHANGED",
                f"{self.view.origin}: {self.view.name} v{self.view.version} isn't what wrote {self.uri}",
                state="the table is as it was; nothing was written",
                next_step=f"give the new definition version {self.view.version + 1}",
                fingerprint=self.view.fingerprint,
                table_fingerprint=found.note.fingerprint,
            )

    def _no_partition(self, batch: int) -> BadDefinition:
        return BadDefinition(
            "PARTITION_NULL",
            f"{self.view.origin}: {self.view.name} v{self.view.version} returned rows whose "
            f"{self.view.partition_by} is null, in batch {batch}",
            state="nothing of this batch was committed",
            next_step="leave such rows out in the view's function, or make it a kappa view",
            batch=batch,
        )
