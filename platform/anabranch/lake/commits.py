"""The only module that commits to a table of this platform (except ``file_commits``: compactions, large merges).

Every commit carries ``CommitMetadata``: its writer, its batch, the definition's fingerprint and the cut that it covers.
A writer reads the newest metadata before it writes, so it knows, and logs, whether its batch is already committed.
After an error ``lake.log.commit_outcome`` reads from the log whether the commit was written, so an error always means
that it wasn't. A commit makes exactly the version after the one that was read, or fails with TABLE_MOVED: its file is
created only if none has its name, so two writers can't both win, and there is no lock that a stopped writer would keep
(ADR 0033). A compaction that was faster has changed no row, so the commit is repeated after it. Spark only stages
files: its own commits check first and rename then, which isn't atomic. Delta's own ``txnAppId`` is never used: Delta
silently skips a write whose version isn't above the last one seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import DeltaError

from anabranch.core.errors import BrokenState
from anabranch.core.storage import path_of, storage_of
from anabranch.lake._commit_metadata import (
    Commit,
    CommitMetadata,
    check_unchanged_since,
    commit_history,
    latest_commit,
    latest_verified_commit,
    open_table,
)
from anabranch.lake.files import StagedFile, add_actions
from anabranch.lake.log.commit_errors import commit_error, commit_unwritten, update_after
from anabranch.lake.log.commit_outcome import NO_TABLE, commit_or_confirm, new_mark
from anabranch.lake.log.delta_tables import delta_table
from anabranch.lake.log.rewrite_commits import retry_over_rewrites
from anabranch.lake.log.version_checksum import prepare, publish

__all__ = [
    "LOG_DAYS",
    "TABLE_PROPERTIES",
    "Commit",
    "CommitMetadata",
    "append",
    "check_unchanged_since",
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
LOG_DAYS = 30
CHECKPOINT_COMMITS = 100
"""Commits between two checkpoints. With Delta's default of 10 every tenth commit took 1.7-2.0 s."""
TABLE_PROPERTIES = {
    "delta.checkpointInterval": str(CHECKPOINT_COMMITS),
    "delta.logRetentionDuration": f"interval {LOG_DAYS} days",
    # A writer would delete commits that a running replay hasn't reached yet: maintenance deletes them instead.
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
    """Create an empty table, or return the existing one (of two concurrent callers one creates it). Raises BrokenState
    TABLE_UNREADABLE or COMMIT_UNWRITTEN; TryAgain COMMIT_UNKNOWN."""
    if (known := open_table(uri)) is not None:
        return known
    folder, mark, made = path_of(uri), new_mark(), list[DeltaTable]()
    storage = storage_of(folder)
    nullable = pa.schema([f.with_nullable(True) for f in schema])

    def commit() -> None:
        table = DeltaTable.create(
            storage.uri(folder),
            schema=Schema.from_arrow(nullable),
            mode="ignore",
            partition_by=list(partition_by),
            configuration={**TABLE_PROPERTIES, **(properties or {})},
            commit_properties=_properties(note.to_text(mark)),
            storage_options=dict(storage.delta_options) or None,
        )
        made.append(table)

    try:
        commit_or_confirm(storage.uri(folder), NO_TABLE, mark, commit)
    except (DeltaError, OSError) as error:
        if (known := open_table(uri)) is None:
            raise commit_unwritten(uri, NO_TABLE, error) from error
        return known  # another process was faster ("ignore" isn't atomic)
    return made[0] if made else delta_table(uri)


def widen(table: DeltaTable, schema: pa.Schema, note: CommitMetadata) -> int:
    """Add the columns and nested fields of ``schema`` that the table lacks, all nullable; returns the new version.

    Writes no data file: readers see null where a file lacks a field. Raises Conflict TABLE_MOVED like ``append``. The
    caller must check first that no existing field has another type: see ``ingest.landing.table.schema_growth``.
    """
    fields = Schema.from_arrow(pa.schema([f.with_nullable(True) for f in schema])).fields
    return _commit_once(table, note, lambda props: table.alter.add_columns(list(fields), commit_properties=props))


def configure(table: DeltaTable, properties: Mapping[str, str], note: CommitMetadata) -> int:
    """Set properties of an existing table; returns the new version. Raises Conflict TABLE_MOVED like ``append``."""
    return _commit_once(
        table, note, lambda props: table.alter.set_table_properties(dict(properties), commit_properties=props)
    )


def append(table: DeltaTable, files: Sequence[StagedFile], note: CommitMetadata) -> int:
    """Add staged files; returns the new version. Conflict TABLE_MOVED: nothing was written; read the table again."""
    return _commit(table, files, note, "append", None)


def replace(
    table: DeltaTable, files: Sequence[StagedFile], note: CommitMetadata, partitions: tuple[str, Sequence[str]] | None
) -> int:
    """Replace exactly the partitions ``(column, values)`` with the staged files, atomically; None: the whole table.

    A named partition without a file becomes empty. Raises STRAY_PARTITION for files of other partitions.
    """
    if partitions is None:
        return _commit(table, files, note, "overwrite", None)
    column, values = partitions
    strays = {f.partition[column] for f in files} - set(values)
    if strays:
        raise BrokenState(
            "STRAY_PARTITION",
            f"this replacement doesn't include the partitions {sorted(map(str, strays))} of its files",
            next_step="this is a bug of the platform: report it with this text",
        )
    if not values:
        return _commit(table, files, note, "append", None)
    return _commit(table, files, note, "overwrite", [(column, "in", list(values))])


def upsert(
    table: DeltaTable, rows: pa.Table, key: Sequence[str], note: CommitMetadata, partition: str | None = None
) -> int:
    """Merge ``rows`` by ``key``: replaces rows with an existing key, adds the others. A repeat changes nothing."""
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

    def merge(props: CommitProperties) -> None:
        (
            table.merge(
                rows,
                predicate=" and ".join(matches),
                source_alias="source",
                target_alias="target",
                commit_properties=props,
            )
            .when_matched_update_all()
            .when_not_matched_insert_all()
            .execute()
        )

    return _commit_once(table, note, merge)


def _commit(
    table: DeltaTable,
    files: Sequence[StagedFile],
    note: CommitMetadata,
    mode: str,
    filters: list[tuple[str, str, list[str]]] | None,
) -> int:
    columns = table.metadata().partition_columns

    def commit(props: CommitProperties) -> None:
        checksum = prepare(table, files) if mode == "append" and files else None
        table.create_write_transaction(
            add_actions(files), mode, table.schema(), columns, filters, commit_properties=props
        )
        if checksum:
            publish(checksum)

    return _commit_once(table, note, commit)


def _commit_once(table: DeltaTable, note: CommitMetadata, commit: Callable[[CommitProperties], object]) -> int:
    """Run ``commit``, which commits the version after the one of ``table``; returns that version.

    After an error the log says whether it was written (``log.commit_outcome``). Conflict TABLE_MOVED and BrokenState
    COMMIT_UNWRITTEN mean that it wasn't.
    """
    uri, read, mark = table.table_uri, table.version(), new_mark()
    props = _properties(note.to_text(mark))

    def attempt() -> int:
        return commit_or_confirm(uri, table.version(), mark, lambda: commit(props))

    try:
        version = retry_over_rewrites(table, attempt)
    except (DeltaError, OSError) as error:
        raise commit_error(table, error, read) from error
    update_after(table, version)
    return version


def _properties(metadata: str) -> CommitProperties:
    return CommitProperties(custom_metadata={"userMetadata": metadata}, max_commit_retries=0)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
