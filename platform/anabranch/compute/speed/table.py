"""The speed table of a view: one stream writes it, one commit per micro-batch."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace as with_fields
from datetime import date
from enum import Enum
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from anabranch.compute._table_columns import check_columns
from anabranch.compute.speed._large_merge import merge_large
from anabranch.compute.speed.checkpoint_handover import REPLAY, replaced_by_replay
from anabranch.core.errors import BadDefinition, BrokenState, Conflict
from anabranch.ingest.landing.table.schema import LOADED
from anabranch.lake import Commit, CommitMetadata, latest_commit, latest_verified_commit
from anabranch.lake.commits import check_unchanged_since, create, replace, upsert
from anabranch.lake.cut import Cut
from anabranch.lake.files import StagedFile, stage_frame
from anabranch.lake.streams.writer_fencing import WriterFence
from anabranch.views import View
from anabranch.views.model.definition import EMPTIED, PARTITION_DATE
from anabranch.views.selection.inputs import loaded_in
from anabranch.views.selection.partitions import one_file_each, select_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)


class BatchAction(Enum):
    """What to do with a micro-batch."""

    DONE = "this batch is already in the table"
    REFRESH = "the first batch of a new checkpoint: it holds everything and replaces the table"
    NEXT = "the batch after the latest one"


class SpeedTable:
    """A view's speed table, kept open by its only writer."""

    def __init__(
        self,
        uri: str,
        view: View,
        schema: pa.Schema,
        *,
        unverified: bool = False,
        fence: WriterFence | None = None,
        replay: bool = False,
    ) -> None:
        """Opens or creates the table. Raises Conflict DEFINITION_CHANGED when another definition wrote it, or rows with
        other columns.

        ``unverified``: accept a latest commit after which another writer may have changed rows, for callers that
        replace those rows; a caller that replaces some partitions calls ``check_other_partitions``. ``fence``: of the
        stream that writes; without it (FENCED) the stream must stop.
        ``replay``: the stream is a replay's.
        """
        self.view = view
        self._replay = replay
        self._loaded: Mapping[str, int] = {}
        self._fence = fence
        self._latest = latest_commit if unverified else latest_verified_commit
        self.partition = None if view.kappa else PARTITION_DATE
        self.uri = uri
        self._table = create(uri, schema, [self.partition] if self.partition else [], self.note("create", Cut()))
        self._check_fingerprint(self.newest())
        check_columns(view, schema, self._table)

    def lost(self) -> Conflict | None:
        """The reason why the stream may not write any more; None while it may."""
        return self._fence.lost() if self._fence is not None else None

    def note(self, batch: str, cut: Cut, **extra: object) -> CommitMetadata:
        return CommitMetadata(f"{self.view.writer}/speed", batch, cut, self.view.fingerprint, extra)

    def loaded(self, cut: Cut, *, refreshed: bool) -> dict[str, Any]:
        """``loaded_epochs`` for a commit's metadata. A live stream that has begun anew (``refreshed``) has read no
        event from files."""
        epochs = {} if refreshed and not self._replay else self.loaded_epochs(cut)
        return {LOADED: dict(epochs)} if epochs else {}

    def loaded_epochs(self, cut: Cut) -> Mapping[str, int]:
        """The epochs up to which a kappa view reads events from files: a replay all of them, the live stream those that
        the table has."""
        if not self.view.kappa:
            return {}
        if self._replay:
            return {topic: position.epoch for topic, position in cut.positions.items()}
        return self._loaded

    def newest(self) -> Commit:
        """The latest commit. It also pins the table's version: the next commit follows it directly, or fails.

        Only for a decision about the next commit. Behind a decision use ``pinned``: a new pin would let a writer that
        slept meanwhile commit on top of its successor.
        """
        self._table.update_incremental()
        return self.pinned()

    def pinned(self) -> Commit:
        """The commit that the next one follows."""
        found = self._latest(self._table)
        if found is None:
            raise BrokenState(
                "TABLE_GONE",
                f"{self.uri} isn't a table any more",
                next_step="delete the view's speed checkpoint too: its stream then builds the table again from landing",
            )
        return found

    def check_other_partitions(self, partitions: Sequence[date]) -> None:
        """Raises BrokenState COMMIT_UNNAMED if another writer has changed rows of others than these partitions since
        the latest commit: the next one would make them look like the stream's own."""
        check_unchanged_since(self._table, self.pinned(), (PARTITION_DATE, {day.isoformat() for day in partitions}))

    def action_for(self, checkpoint: str, batch: int, cut: Cut) -> BatchAction:
        """Decides from the latest commit alone what to do with batch ``batch`` of ``checkpoint``. Nothing is skipped
        silently: DONE is logged, and a batch that is neither repeated, first nor next is an error.

        A restored checkpoint counts on from an older batch. Its batch of an old number may contain more than the
        original one did: every row that has changed since. So it is merged like any other. Raises Conflict FENCED when
        another process has taken over.
        """
        if self._fence is not None:
            self._fence.check()
        found = self.newest()
        self._check_fingerprint(found)
        self._loaded = loaded_in(found.note)
        owner, _, number = found.note.batch.partition(":")
        if owner == checkpoint and batch <= int(number):
            if _holds(found, checkpoint, batch, cut):
                log.warning("%s: batch %d is already committed (version %d)", self.view.writer, batch, found.version)
                return BatchAction.DONE
            log.warning("%s: the checkpoint was restored; its batch %d extends to %s", self.view.writer, batch, cut)
            return BatchAction.NEXT
        if owner == checkpoint and batch == int(number) + 1:
            return BatchAction.NEXT
        if owner != checkpoint and batch != 0 and REPLAY in found.note.extra:
            raise replaced_by_replay(self.view, found.note.extra[REPLAY])
        if owner == checkpoint or batch != 0:
            raise BrokenState(
                "BATCH_MISSING",
                f"{self.view.writer}: batch {batch} of checkpoint {checkpoint} doesn't follow {found.note.batch}",
                state="nothing was written; the table lacks the changes of the batches in between",
                next_step="delete the view's speed checkpoint: its stream then builds the table again from landing",
                batch=batch,
                newest=found.note.batch,
            )
        if not cut.covers(found.note.cut):
            raise Conflict(
                "CUT_BACKWARDS",
                f"{self.view.writer} is at {found.note.cut}, but landing is only at {cut}",
                state="nothing was written; readers still see the table as it was",
                next_step="find out why landing is shorter than before; delete the speed table if that is intended",
            )
        return BatchAction.REFRESH

    def version_with(self, checkpoint: str, batch: int, cut: Cut) -> int | None:
        """The newest version, if it holds batch ``batch`` of ``checkpoint`` up to ``cut``; None if not. For what is
        said after an error: it pins nothing. Raises as ``open_table``."""
        found = latest_commit(self.uri)
        return found.version if found is not None and _holds(found, checkpoint, batch, cut) else None

    def stage(self, rows: DataFrame, batch: int) -> list[StagedFile]:
        """Stages all rows as files, which no reader sees until ``refresh`` commits them. One file per partition: even
        so a year is hundreds of files."""
        rows = rows.repartition(self.partition) if self.partition else rows
        files = stage_frame(rows, self.uri, f"speed-{uuid.uuid4().hex}", self.partition)
        if self.partition and any(file.partition[self.partition] is None for file in files):
            raise self._no_partition(batch)
        return files

    def stage_partitions(self, rows: DataFrame, partitions: Sequence[date]) -> Sequence[StagedFile]:
        """Stages the files of these partitions. Rows of other partitions, which lookback and lookahead bring in, are
        dropped."""
        rows = one_file_each(rows, self.view, partitions)
        files = stage_frame(rows, self.uri, f"speed-{uuid.uuid4().hex}", PARTITION_DATE)
        return select_files(self.view, self.uri, files, partitions)

    def replace(self, files: Sequence[StagedFile], partitions: Sequence[date], note: CommitMetadata) -> None:
        """Replaces these partitions in one commit. Without partitions it still commits: the cut advances."""
        texts = [day.isoformat() for day in partitions]
        replace(self._table, files, self._with_emptied(note, files, set(texts)), (PARTITION_DATE, texts))

    def refresh(self, files: Sequence[StagedFile], note: CommitMetadata) -> None:
        """Replaces the whole table by staged files in one commit; readers see the old rows until then."""
        replace(self._table, files, self._with_emptied(note, files, None), None)

    def _with_emptied(
        self, note: CommitMetadata, files: Sequence[StagedFile], partitions: Set[str] | None
    ) -> CommitMetadata:
        """Adds the partitions that lose their last row to the commit metadata. Otherwise readers would be served the
        batch half of an older cut there, because speed seems to have nothing for them."""
        if self.view.refresh != "partitions" or self.partition is None:  # with Spark's state no row disappears
            return note
        filled = {str(file.partition[PARTITION_DATE]) for file in files}
        present = {str(partition[PARTITION_DATE]) for partition in self._table.partitions()}
        emptied_now = (present if partitions is None else present & partitions) - filled
        epochs = {topic: position.epoch for topic, position in note.cut.positions.items()}
        before = {**self.pinned().note.extra.get(EMPTIED, {}), **note.extra.get(EMPTIED, {})}
        emptied = {**before, **dict.fromkeys(sorted(emptied_now), epochs)}
        still_empty = {day: since for day, since in emptied.items() if day not in filled}
        return with_fields(note, extra={**note.extra, EMPTIED: still_empty}) if still_empty else note

    def merge_small(self, rows: pa.Table, batch: int, note: CommitMetadata) -> None:
        """Merges changed rows by key through delta-rs (0.1 s). Without rows it still commits: the cut advances."""
        if self.partition and rows[self.partition].null_count:
            raise self._no_partition(batch)
        upsert(self._table, rows, self.view.key, note, self.partition)

    def merge_large(self, rows: DataFrame, batch: int, note: CommitMetadata) -> None:
        """As ``merge_small``, by Spark, for more rows than fit on the driver. ``rows`` must be persisted. Raises
        Conflict TABLE_MOVED when another writer committed first."""
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
                f"{self.view.origin}: {self.view.name} v{self.view.version} isn't the definition that wrote {self.uri}",
                state="the table is unchanged; nothing was written",
                next_step=f"declare the new definition as version={self.view.version + 1}",
                fingerprint=self.view.fingerprint,
                table_fingerprint=found.note.fingerprint,
            )

    def _no_partition(self, batch: int) -> BadDefinition:
        return BadDefinition(
            "PARTITION_NULL",
            f"{self.view.origin}: {self.view.name} v{self.view.version} returned rows whose "
            f"{self.view.partition_by} is null, in batch {batch}",
            state="nothing of this batch was committed",
            next_step="filter such rows out in the view's function, or make it a kappa view",
            batch=batch,
        )


def _holds(found: Commit, checkpoint: str, batch: int, cut: Cut) -> bool:
    owner, _, number = found.note.batch.partition(":")
    return owner == checkpoint and batch <= int(number) and found.note.cut.covers(cut)
