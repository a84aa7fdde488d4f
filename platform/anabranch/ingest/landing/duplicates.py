"""Detects records that repeat an earlier (source, id), within their micro-batch and within the duplicate horizon, and
moves them out of the files that Spark has staged for an epoch."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from numpy.typing import NDArray

from anabranch.contracts import Topic
from anabranch.core.settings import Settings
from anabranch.core.storage import storage_of
from anabranch.ingest.landing.id_hashes import Hashes, by_day, days_of, duplicates_within, hashes, split
from anabranch.ingest.landing.id_index import IdIndex, Origin
from anabranch.ingest.landing.state import writer_of
from anabranch.ingest.landing.table.schema import DUPLICATE, EVENT_DATE, EVENTS, IS_EVENT
from anabranch.ingest.landing.table.sql import landed_rows, rows_of_files
from anabranch.lake import CommitMetadata, latest_commit
from anabranch.lake.files import StagedFile, parquet_file, restage, stage_arrow
from anabranch.lake.layout import landing_index
from anabranch.lake.log.commit_log import changes

LOGGER = logging.getLogger(__name__)
_FIRST_DAY = date(1970, 1, 1)
"""No record of a log is older."""
_KEPT = {
    "topic",
    "partition",
    "offset",
    "append_time",
    "key",
    "value",
    "headers",
    "type",
    "subject",
    "source",
    "event_id",
    "epoch",
}
IDENTITY = ["partition", "offset", "append_time", "decision", "source", "event_id"]
"""The columns that duplicates are detected by."""


class Duplicates:
    """Knows the ids in one landing table. Called by that table's landing only, once per micro-batch, from one thread.

    Of several copies in one micro-batch the first by (append time, partition, offset) is the event. Not guaranteed: a
    copy that was appended to the log more than ``topic.duplicate_horizon`` after the event may not be detected; ids are
    dropped by whole days. ``step`` is called after each day that is added to the index. With ``every_age`` no id is
    ever dropped, in an index of its own: history that is loaded may be a copy of any event.
    """

    def __init__(
        self,
        settings: Settings,
        topic: Topic,
        table: DeltaTable,
        step: Callable[[], None] = lambda: None,
        *,
        every_age: bool = False,
    ) -> None:
        self._topic, self._table, self._step, self._every_age = topic, table, step, every_age
        self._table_id = str(table.metadata().id)
        folder = landing_index(settings, topic.name)
        self._index = IdIndex(folder.with_name(f"{folder.name}-every-age") if every_age else folder)
        self._fresh: list[tuple[date | None, Hashes]] = []
        self._compared = False

    def catch_up(self) -> None:
        """Update the index to the table's last read version: from the commits since then (a release, an epoch before a
        crash), or by a rebuild from all that was landed within the horizon."""
        origin = self._index.origin
        known = origin is not None and (origin.table, origin.version) == (self._table_id, self._table.version())
        if known and self._compared:
            return
        # A table that was restored has its id and may have the version again, of another commit.
        missed, self._compared = self._committed_since(origin), True
        if missed is None:
            self._rebuild()
        elif missed:
            with rows_of_files(missed) as rows:
                self._add(by_day(rows, IS_EVENT))
        self._index.save(self._origin())

    def find_duplicates(self, rows: pa.Table) -> NDArray[np.bool_]:
        """Which of ``rows``, the micro-batch (IDENTITY), repeat an earlier event. Only events can: a copy of an
        event that isn't valid is quarantined."""
        repeated = np.zeros(rows.num_rows, np.bool_)
        self._fresh = []
        places = pc.indices_nonzero(pc.is_in(rows["decision"], pa.array(EVENTS))).to_numpy()
        if len(places):
            valid = rows if len(places) == len(rows) else rows.take(places)
            # Of all records: those of a partition that lags may be in quarantine, with copies behind them.
            first = pc.min(rows["append_time"]).as_py()
            # A record may have a wrong append time (here, and in ``_rebuild``); that must not empty the index.
            self._index.forget(self._oldest(min(first, datetime.now(UTC))))
            found = hashes(valid)
            known = duplicates_within(valid, found) | self._index.known(found)
            repeated[places] = known
            self._fresh = list(split(found[:, ~known], days_of(valid)[~known]))
        return repeated

    def record_committed(self) -> None:
        """Called after the commit of the micro-batch that was last passed to ``find_duplicates``. A disk that is full
        fails nothing: what is committed is in, and ``catch_up`` adds what is missing."""
        try:
            self._add(self._fresh)
            self._index.save(self._origin())
        except OSError as error:
            LOGGER.warning("%s: the index of ids can't be written, and is caught up later: %s", self._topic.name, error)
        self._fresh = []

    def _committed_since(self, origin: Origin | None) -> list[Path] | None:
        """Files that were committed after ``origin``; None if it isn't in this table's history, if the log no longer
        holds that, or if another writer has changed rows."""
        if origin is None or origin.table != self._table_id or origin.version > self._table.version():
            return None
        files: list[Path] = []
        for version in range(origin.version, self._table.version() + 1):
            try:
                made = changes(self._table, version)
            except FileNotFoundError:
                return None
            note = CommitMetadata.from_text(made.message)
            if version == origin.version:
                if note is not None and note.batch != origin.batch:
                    return None
            elif made.removed or (made.added and (note is None or note.writer != writer_of(self._topic))):
                return None
            else:
                files += made.added
        return files if all(storage_of(file).exists(file) for file in files) else None  # compacted and deleted since

    def _rebuild(self) -> None:
        LOGGER.info("%s: rebuilding the index of ids from what was landed", self._topic.name)
        self._index.clear()
        with landed_rows(self._table) as rows:
            newest_us = f"SELECT max(epoch_us(append_time)) FROM rows WHERE {IS_EVENT}"  # noqa: S608
            ((last,),) = rows.execute(newest_us).fetchall()
            if last is not None:
                oldest = self._oldest(min(datetime.fromtimestamp(last // 1_000_000, UTC), datetime.now(UTC)))
                first = int(datetime.combine(oldest, time.min, UTC).timestamp()) * 1_000_000
                within = f"epoch_us(append_time) >= {first} OR released_from IS NOT NULL"
                self._add(by_day(rows, f"{IS_EVENT} AND ({within})"))

    def _add(self, days: Iterable[tuple[date | None, Hashes]]) -> None:
        for day, found in days:
            self._index.add(day, found)
            self._step()

    def _oldest(self, append_time: datetime) -> date:
        """The first day within the horizon of a record with this append time."""
        if self._every_age:
            return _FIRST_DAY
        horizon, first = self._topic.duplicate_horizon, datetime.combine(_FIRST_DAY, time.min, UTC)
        return (max(append_time, first + horizon) - horizon).astimezone(UTC).date()

    def _origin(self) -> Origin:
        committed = latest_commit(self._table)
        return Origin(self._table_id, self._table.version(), committed.note.batch if committed else "")


def mark_duplicates(rows: pa.Table, repeats: NDArray[np.bool_]) -> pa.Table:
    """``rows`` with those marked in ``repeats`` turned into duplicates and moved to the end."""
    mask = pa.array(repeats)
    return pa.concat_tables([rows.filter(pc.invert(mask)), as_duplicates(rows.filter(mask), rows.schema)])


def as_duplicates(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The same records as duplicates: bytes and ids stay, decoded columns become null."""
    fixed = {"decision": pa.array([DUPLICATE] * rows.num_rows, pa.string())}
    kept = {name: rows[name] for name in rows.column_names if name in _KEPT}
    columns = {**kept, **fixed}
    return pa.table([columns.get(f.name, pa.nulls(rows.num_rows, f.type)) for f in schema], schema=schema)


def read_columns(uri: str, staged: Sequence[StagedFile], names: Sequence[str], schema: pa.Schema) -> pa.Table:
    """Some columns of all staged files, in file order, with the types of ``schema``."""
    wanted = pa.schema([schema.field(name) for name in names])

    def read(file: StagedFile) -> pa.Table:
        with parquet_file(Path(uri) / file.path) as opened:
            return opened.read(columns=list(names), use_threads=False).select(names)

    with ThreadPoolExecutor(4) as pool:
        tables = [table.cast(wanted) for table in pool.map(read, staged)]
    return pa.concat_tables(tables) if tables else wanted.empty_table()


def without_duplicates(
    uri: str, staged: Sequence[StagedFile], repeats: NDArray[np.bool_], schema: pa.Schema, build: str
) -> list[StagedFile]:
    """The staged files without the rows marked in ``repeats`` (in file order), and one more file that holds these as
    duplicates."""
    ends = np.cumsum([file.rows for file in staged])
    marks = np.split(repeats, ends[:-1]) if staged else []

    def take_out(file: StagedFile, marked: NDArray[np.bool_]) -> tuple[StagedFile | None, pa.Table]:
        path = Path(uri) / file.path
        with parquet_file(path) as opened:
            data = opened.read(use_threads=False)
        mask = pa.array(marked)
        found = as_duplicates(data.filter(mask), schema)
        if marked.all():
            storage_of(path).remove(path)
            return None, found
        return restage(data.filter(pc.invert(mask)), uri, file), found

    touched = [(file, marked) for file, marked in zip(staged, marks, strict=True) if marked.any()]
    with ThreadPoolExecutor(2) as pool:
        mended = list(pool.map(lambda pair: take_out(*pair), touched))
    kept = [file for file, marked in zip(staged, marks, strict=True) if not marked.any()]
    kept += [file for file, _ in mended if file is not None]
    if not mended:
        return kept
    return kept + stage_arrow(pa.concat_tables([found for _, found in mended]), uri, build, EVENT_DATE)
