"""Merge more rows than fit on the driver: Spark stages files, and one commit swaps them for the files they replace.

Like the small merge it upserts by key. Only files that contain one of the keys are rewritten. Spark's own MERGE isn't
used: it commits by check-then-rename, so a concurrent commit could be lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from functools import reduce
from operator import and_
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlparse
from uuid import uuid4

from deltalake import DeltaTable

from anabranch.core.errors import BrokenState, Conflict
from anabranch.lake import CommitMetadata
from anabranch.lake.file_commits import DataFile, commit_rewrite, data_files
from anabranch.lake.files import StagedFile, stage_frame
from anabranch.lake.frames import file_rows
from anabranch.lake.log.delta_tables import folder_of
from anabranch.lake.log.rewrite_commits import unchanged

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_FILE: Final = "_file_of_row"
_TRIES = 5


def merge_large(
    table: DeltaTable,
    rows: DataFrame,
    key: Sequence[str],
    note: CommitMetadata,
    partition: str | None,
    days: Sequence[date],
) -> int:
    """Merges ``rows``, which must be persisted and hold each key once, directly after the version that ``table`` is at.
    Returns the new version. ``days``: the values of ``partition`` in ``rows``.

    If a concurrent compaction replaced the files that were read, it is retried. Raises Conflict TABLE_MOVED when
    another writer committed first; nothing was committed then.
    """
    for _ in range(_TRIES):
        read = table.version()
        candidates = _candidates(table, partition, days)
        removed = _files_with_keys(table, candidates, rows, key)
        added = _staged(table, removed, rows, key, partition)
        try:
            return commit_rewrite(table, removed, added, note)
        except Conflict:
            if not unchanged(table, read) or table.version() == read:
                raise
    raise Conflict(
        "TABLE_MOVED",
        f"{table.table_uri} was compacted {_TRIES} times while rows were merged into it",
        state="nothing was committed",
        next_step="read the latest commit and decide again",
    )


def _candidates(table: DeltaTable, partition: str | None, days: Sequence[date]) -> list[DataFile]:
    """The files that may hold a row of those days. Raises BrokenState FILE_NAME_STRANGE."""
    held = data_files(table)
    if len(held) < len(table.file_uris()):
        raise BrokenState(
            "FILE_NAME_STRANGE",
            f"{table.table_uri} has files whose names differ from those in its Delta log",
            state="nothing was written",
            next_step="only the platform may write to this table: delete it and let its stream build it again",
        )
    texts = {day.isoformat() for day in days}
    return held if partition is None else [file for file in held if file.partition[partition] in texts]


def _files_with_keys(
    table: DeltaTable, candidates: Sequence[DataFile], rows: DataFrame, key: Sequence[str]
) -> list[DataFile]:
    """The files that hold a key of ``rows``."""
    held = file_rows(rows.sparkSession, table, [file.path for file in candidates], _FILE).alias("held")
    matching = held.join(rows.alias("new"), _same_key(key), "left_semi").select(_FILE).distinct().collect()
    found = {Path(unquote(urlparse(row[0]).path)) for row in matching}
    return [file for file in candidates if folder_of(table) / file.path in found]


def _staged(
    table: DeltaTable, removed: Sequence[DataFile], rows: DataFrame, key: Sequence[str], partition: str | None
) -> list[StagedFile]:
    """Stages ``rows`` and the unaffected rows of the files that are replaced, one file per partition."""
    held = file_rows(rows.sparkSession, table, [file.path for file in removed]).alias("held")
    kept = held.join(rows.alias("new"), _same_key(key), "left_anti")
    merged = kept.unionByName(rows)
    merged = merged.repartition(partition) if partition else merged.coalesce(max(1, len(removed)))
    return stage_frame(merged, str(folder_of(table)), f"speed-{uuid4().hex}", partition)


def _same_key(key: Sequence[str]) -> Column:
    from pyspark.sql import functions as F

    return reduce(and_, [F.col(f"held.`{column}`").eqNullSafe(F.col(f"new.`{column}`")) for column in key])
