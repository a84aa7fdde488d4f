"""The one way in which anything is committed to a table of this platform.

Every commit carries a Note: who wrote it, which batch of whose, from which definition, and which cut it covers.
A writer reads the newest note before it writes and so knows, loudly, whether its batch is in already. Whether a commit
is in that ended with an error is asked of the log (``outcome``), so an error always means that it isn't. A commit
lands exactly behind the version that was read, or not at all (TABLE_MOVED): its file gets its name only where none has
it, so two writers can't both win, and none holds a lock that a stopped one would keep (ADR 0033). A compaction that was
quicker has changed no row, and the commit lands behind it. Spark only stages files: its own commits look first and
rename then.
Delta's own ``txnAppId`` is never used: a write at or below the last one seen is silently ignored there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import DeltaError

from anabranch.core.errors import BrokenState
from anabranch.lake.commit_errors import refused
from anabranch.lake.commit_metadata import (
    Commit,
    CommitMetadata,
    commit_history,
    latest_commit,
    latest_verified_commit,
    open_table,
)
from anabranch.lake.commit_outcome import new_mark, settled
from anabranch.lake.rewrite_commits import retry_over_rewrites
from anabranch.lake.staging import StagedFile, add_actions
from anabranch.lake.version_checksum import discard, prepare, publish

__all__ = [
    "LOG_DAYS",
    "TABLE_PROPERTIES",
    "Commit",
    "CommitMetadata",
    "append",
    "commit_history",
    "configure",
    "create",
    "latest_commit",
    "latest_verified_commit",
    "open_table",
    "replace",
    "upsert",
    "widen",
]
log = logging.getLogger(__name__)
LOG_DAYS = 30
CHECKPOINT_COMMITS = 100
"""After so many commits there is a checkpoint. Each tenth commit took 1.7-2.0 s with Delta's default of 10."""
TABLE_PROPERTIES = {
    "delta.checkpointInterval": str(CHECKPOINT_COMMITS),
    "delta.logRetentionDuration": f"interval {LOG_DAYS} days",
    # A writer would take commits away that a replay under way has not come to: maintenance does it.
    "delta.enableExpiredLogCleanup": "false",
    "delta.deletedFileRetentionDuration": "interval 7 days",
}


def create(
    uri: str,
    schema: pa.Schema,
    partition_by: Sequence[str],
    note: CommitMetadata,
    properties: Mapping[str, str] | None = None,
) -> DeltaTable:
    """Make an empty table, or return the one that is there (two starters at once: one makes it). BrokenState
    TABLE_UNREADABLE."""
    if (known := open_table(uri)) is not None:
        return known
    Path(uri).mkdir(parents=True, exist_ok=True)
    nullable = pa.schema([f.with_nullable(True) for f in schema])
    try:
        return DeltaTable.create(
            uri,
            schema=Schema.from_arrow(nullable),
            mode="ignore",
            partition_by=list(partition_by),
            configuration={**TABLE_PROPERTIES, **(properties or {})},
            commit_properties=_properties(note.to_text()),
        )
    except (DeltaError, OSError):  # another starter was first ("ignore" looks before it commits), or it is in
        made = open_table(uri)
        if made is None:
            raise
        return made


def widen(table: DeltaTable, schema: pa.Schema, note: CommitMetadata) -> int:
    """Add the columns and nested fields of ``schema`` that the table lacks, all nullable; returns the new version.

    No data file is touched: readers find null where a file lacks a field. Conflict TABLE_MOVED as ``append``. A field
    that is there as another type has to be found before: see ``ingest.landing.schema_growth``.
    """
    fields = Schema.from_arrow(pa.schema([f.with_nullable(True) for f in schema])).fields
    return _once(table, note, lambda said: table.alter.add_columns(list(fields), commit_properties=said))


def configure(table: DeltaTable, properties: Mapping[str, str], note: CommitMetadata) -> int:
    """Set properties of a table that is there; returns the new version. Conflict TABLE_MOVED as ``append``."""
    return _once(table, note, lambda said: table.alter.set_table_properties(dict(properties), commit_properties=said))


def append(table: DeltaTable, files: Sequence[StagedFile], note: CommitMetadata) -> int:
    """Add staged files; returns the new version. Conflict TABLE_MOVED: nothing was written, read again."""
    return _commit(table, files, note, "append", None)


def replace(
    table: DeltaTable, files: Sequence[StagedFile], note: CommitMetadata, partitions: tuple[str, Sequence[str]] | None
) -> int:
    """Replace exactly the partitions ``(column, values)`` by the staged files, in one step; None: everything.

    A partition that is named but has no file becomes empty. Files of other partitions are refused.
    """
    if partitions is None:
        return _commit(table, files, note, "overwrite", None)
    column, values = partitions
    strays = {f.partition[column] for f in files} - set(values)
    if strays:
        raise BrokenState(
            "STRAY_PARTITION",
            f"files of {sorted(map(str, strays))} are no part of this replacement",
            next_step="this is a fault of the platform: report it with this text",
        )
    if not values:
        return _commit(table, files, note, "append", None)
    return _commit(table, files, note, "overwrite", [(column, "in", list(values))])


def upsert(
    table: DeltaTable, rows: pa.Table, key: Sequence[str], note: CommitMetadata, partition: str | None = None
) -> int:
    """Merge ``rows`` by ``key``: a row whose key is there replaces it, others are added. A repeat changes nothing."""
    if rows.num_rows == 0:
        return append(table, [], note)
    matches = [f"(target.{_quoted(column)} is not distinct from source.{_quoted(column)})" for column in key]
    if partition is not None:
        values = sorted({str(value) for value in rows[partition].to_pylist() if value is not None})
        column = f"target.{_quoted(partition)}"
        listed = ", ".join(f"cast('{value}' as date)" for value in values)
        choices = [f"{column} in ({listed})"] if values else []
        if rows[partition].null_count:
            choices.append(f"{column} is null")
        matches.append(f"({' or '.join(choices)})")

    def merge(said: CommitProperties) -> None:
        (
            table.merge(
                rows,
                predicate=" and ".join(matches),
                source_alias="source",
                target_alias="target",
                commit_properties=said,
            )
            .when_matched_update_all()
            .when_not_matched_insert_all()
            .execute()
        )

    return _once(table, note, merge)


def _commit(
    table: DeltaTable,
    files: Sequence[StagedFile],
    note: CommitMetadata,
    mode: str,
    filters: list[tuple[str, str, list[str]]] | None,
) -> int:
    columns = table.metadata().partition_columns

    def commit(said: CommitProperties) -> None:
        announced = prepare(table, files) if mode == "append" and files else None
        try:
            table.create_write_transaction(
                add_actions(files), mode, table.schema(), columns, filters, commit_properties=said
            )
        except (DeltaError, OSError):
            if announced:
                discard(announced)
            raise
        if announced:
            publish(announced)

    return _once(table, note, commit)


def _once(table: DeltaTable, note: CommitMetadata, commit: Callable[[CommitProperties], object]) -> int:
    """The one commit that ``commit`` makes right behind the version that ``table`` is at; its version.

    Whether it is in is asked of the log (``outcome``). Conflict TABLE_MOVED, BrokenState COMMIT_UNWRITTEN: it isn't.
    """
    uri, read, mark = table.table_uri, table.version(), new_mark()
    said = _properties(note.to_text(mark))

    def attempt() -> int:
        return settled(uri, table.version(), mark, lambda: commit(said))

    try:
        version = retry_over_rewrites(table, attempt)
    except (DeltaError, OSError) as error:
        raise refused(table, error, read) from error
    try:
        table.update_incremental()
    except (DeltaError, OSError) as error:  # the commit is in: whoever writes the next one finds out
        log.warning("%s: version %d is in, but can't be read: %s", uri, version, error)
    return version


def _properties(said: str) -> CommitProperties:
    return CommitProperties(custom_metadata={"userMetadata": said}, max_commit_retries=0)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
