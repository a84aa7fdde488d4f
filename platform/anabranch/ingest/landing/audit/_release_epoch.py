"""Lands released records as an epoch: decoded outside of any commit, as rows of files are (``files/_file_epochs``).

A running landing commits each second, so an attempt to commit must be short: it leaves out what was released meanwhile,
looks for the ids among what has landed since the records were decoded, adds the epoch's number, writes and commits.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from numpy.typing import NDArray

from anabranch.contracts import Topic
from anabranch.core.storage import storage_of
from anabranch.ingest.landing.decoding import decode, raw_frame, with_reasons
from anabranch.ingest.landing.duplicates import mark_duplicates
from anabranch.ingest.landing.epochs import TRIES_BESIDE_LANDING, Epochs, numbered
from anabranch.ingest.landing.id_hashes import duplicates_within, hashes
from anabranch.ingest.landing.loaded_files import as_loaded
from anabranch.ingest.landing.state import LandingState, read_state, writer_of
from anabranch.ingest.landing.table.schema import EVENT_DATE, EVENTS, IS_EVENT, QUARANTINED, VALID, epoch_build
from anabranch.ingest.landing.table.sql import landed_rows, rows_of_files
from anabranch.lake.files import stage_arrow
from anabranch.lake.log.commit_log import changes
from anabranch.lake.log.delta_tables import folder_of
from anabranch.lake.optimistic import until_committed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LANDED_IDS: Final = f"""
SELECT place FROM asked SEMI JOIN rows
ON asked.source = rows.source AND asked.event_id = rows.event_id AND rows.{IS_EVENT}
"""  # noqa: S608
_RELEASED: Final = """
SELECT place FROM asked SEMI JOIN rows
ON asked."partition" = rows."partition" AND asked."offset" = rows."offset" AND rows.released_from IS NOT NULL
"""


class RowsChanged(Exception):
    """Landed rows were changed since the records were read, or it can't be said: they have to be read again."""


@dataclass(frozen=True, slots=True)
class Released:
    """The result of a release: the epoch that it has landed (the last of several; None: none), how many events and
    duplicates, and how many records are still unreadable, by reason."""

    epoch: int | None = None
    released: int = 0
    duplicates: int = 0
    still: dict[str, int] = field(default_factory=dict)


class ReleaseEpoch:
    """Records of the quarantine, decided again. ``records``: of the newest version of ``table``, in the form of
    ``raw_frame``, each with the epoch that it was quarantined in. ``said``: why, and by whom."""

    def __init__(
        self,
        spark: SparkSession,
        table: DeltaTable,
        topic: Topic,
        records: Sequence[Mapping[str, Any]],
        said: Mapping[str, str],
    ) -> None:
        self._table, self._topic, self._said = table, topic, said
        self._seen = table.version()
        self._epochs = Epochs(table, topic)
        decided = with_reasons(decode(raw_frame(spark, topic, records), topic).toArrow(), topic)
        self._still = dict(Counter(reason for reason in decided["reason"].to_pylist() if reason))
        self._rows = decided.filter(pc.not_equal(decided["decision"], QUARANTINED))
        self._came_from = {(each["partition"], each["offset"]): each["epoch"] for each in records}
        self._gone = np.zeros(self._rows.num_rows, np.bool_)
        self._repeated = np.zeros(self._rows.num_rows, np.bool_)

    def land(self) -> Released:
        """Land those that are valid now. Raises RowsChanged, TryAgain TABLE_BUSY: then nothing was written."""
        if self._rows.num_rows:
            self._find_repeats()
            return until_committed(writer_of(self._topic), self._attempt, TRIES_BESIDE_LANDING)
        return Released(still=self._still)

    def _find_repeats(self) -> None:
        """Which of the valid rows repeat an event of the table, of any age, or one another: two copies of an event may
        be in quarantine, and the first of them is the event."""
        places, valid = self._valid()
        self._repeated[places] = duplicates_within(valid, hashes(valid))
        with landed_rows(self._table) as rows:
            self._compare(rows)

    def _valid(self) -> tuple[NDArray[np.int64], pa.Table]:
        places = pc.indices_nonzero(pc.equal(self._rows["decision"], VALID)).to_numpy().astype(np.int64)
        return places, self._rows.take(places)

    def _compare(self, rows: duckdb.DuckDBPyConnection) -> None:
        places, valid = self._valid()
        rows.register("asked", valid.select(["source", "event_id"]).append_column("place", pa.array(places)))
        self._repeated[rows.execute(_LANDED_IDS).fetchnumpy()["place"]] = True

    def _attempt(self) -> Released:
        self._table.update_incremental()
        if added := self._added():
            with rows_of_files(added) as rows:
                self._compare(rows)
                everyone = pa.array(np.arange(self._rows.num_rows))
                rows.register("asked", self._rows.select(["partition", "offset"]).append_column("place", everyone))
                self._gone[rows.execute(_RELEASED).fetchnumpy()["place"]] = True
        left = pa.array(~self._gone)
        rows = self._rows.filter(left)
        if not rows.num_rows:
            return Released(still=self._still)
        before = read_state(self._table, self._topic)
        return self._append(self._as_released(rows, self._repeated[~self._gone], before), before)

    def _added(self) -> list[Path]:
        """Files that were committed since the last look, which this ends. Raises RowsChanged."""
        added: list[Path] = []
        try:
            for version in range(self._seen + 1, self._table.version() + 1):
                made = changes(self._table, version)
                if made.removed:
                    raise RowsChanged
                added += made.added
        except FileNotFoundError:
            raise RowsChanged from None
        if not all(storage_of(file).exists(file) for file in added):  # compacted and deleted since
            raise RowsChanged
        self._seen = self._table.version()
        return added

    def _as_released(self, rows: pa.Table, repeated: NDArray[np.bool_], before: LandingState) -> pa.Table:
        rows = as_loaded(mark_duplicates(numbered(rows, before, self._topic), repeated))
        coordinates = zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True)
        origin = pa.array([self._came_from[each] for each in coordinates], pa.int64())
        return rows.set_column(rows.schema.get_field_index("released_from"), "released_from", origin)

    def _append(self, rows: pa.Table, before: LandingState) -> Released:
        valid = sum(decision in EVENTS for decision in rows["decision"].to_pylist())
        known = replace(before, released=before.released + valid)
        said = {"release": {**self._said, "records": rows.num_rows}}
        staged = stage_arrow(rows, str(folder_of(self._table)), epoch_build(before.epoch + 1), EVENT_DATE)
        self._epochs.commit(staged, rows, known, f"release:{uuid.uuid4().hex}", said)
        return Released(before.epoch + 1, valid, rows.num_rows - valid, self._still)
