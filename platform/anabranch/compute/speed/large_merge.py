"""Merging more rows than the driver should hold: Spark stages files, and one commit puts them in the place of others.

As a small merge it replaces rows by their key and adds the rest. Only files that hold a row of those keys are written
again. Spark's own MERGE would commit by looking first and renaming then: a commit that came in between would be lost.
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

from anabranch.core.errors import BrokenState, Conflict
from anabranch.lake import CommitMetadata, StagedFile, stage_frame
from anabranch.lake.commit_log import folder_of
from anabranch.lake.file_commits import DataFile, commit_rewrite, data_files
from anabranch.lake.frames import file_rows
from anabranch.lake.rewrite_commits import unchanged
from deltalake import DeltaTable

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
    """Merge ``rows``, which must be persisted and hold each key once, right behind the version that ``table`` is at;
    the new version. ``days``: the values of ``partition`` among them.

    A compaction that is quicker takes the files away that were read: then it is done again. Conflict TABLE_MOVED:
    another writer was quicker, nothing was committed.
    """
    for _ in range(_TRIES):
        read = table.version()
        candidates = _candidates(table, partition, days)
        gone = _touched(table, candidates, rows, key)
        made = _staged(table, gone, rows, key, partition)
        try:
            return commit_rewrite(table, gone, made, note)
        except Conflict:
            if not unchanged(table, read) or table.version() == read:
                raise
    raise Conflict(
        "TABLE_MOVED",
        f"{table.table_uri} was compacted {_TRIES} times while rows were merged into it",
        state="nothing of this commit was written",
        next_step="read the newest commit and decide again",
    )


def _candidates(table: DeltaTable, partition: str | None, days: Sequence[date]) -> list[DataFile]:
    """The files that may hold a row of those days. BrokenState FILE_NAME_STRANGE."""
    held = data_files(table)
    if len(held) < len(table.file_uris()):
        raise BrokenState(
            "FILE_NAME_STRANGE",
            f"{table.table_uri} has files whose names Delta's log spells in another way",
            state="nothing was written",
            next_step="nobody but the platform may write to the table: let its stream build it again",
        )
    texts = {day.isoformat() for day in days}
    return held if partition is None else [file for file in held if file.partition[partition] in texts]


def _touched(table: DeltaTable, candidates: Sequence[DataFile], rows: DataFrame, key: Sequence[str]) -> list[DataFile]:
    """The files that hold a row of the keys of ``rows``."""
    held = file_rows(rows.sparkSession, table, [file.path for file in candidates], _FILE).alias("held")
    matching = held.join(rows.alias("new"), _same_key(key), "left_semi").select(_FILE).distinct().collect()
    found = {Path(unquote(urlparse(row[0]).path)) for row in matching}
    return [file for file in candidates if folder_of(table) / file.path in found]


def _staged(
    table: DeltaTable, gone: Sequence[DataFile], rows: DataFrame, key: Sequence[str], partition: str | None
) -> list[StagedFile]:
    """``rows``, and those beside them in the files that go; one file a partition."""
    held = file_rows(rows.sparkSession, table, [file.path for file in gone]).alias("held")
    kept = held.join(rows.alias("new"), _same_key(key), "left_anti")
    merged = kept.unionByName(rows)
    merged = merged.repartition(partition) if partition else merged.coalesce(max(1, len(gone)))
    return stage_frame(merged, str(folder_of(table)), f"speed-{uuid4().hex}", partition)


def _same_key(key: Sequence[str]) -> Column:
    from pyspark.sql import functions as F

    return reduce(and_, [F.col(f"held.`{column}`").eqNullSafe(F.col(f"new.`{column}`")) for column in key])
