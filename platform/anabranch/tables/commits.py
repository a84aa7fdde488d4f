"""The one way in which anything is committed to a table of this platform.

Every commit carries a Note: who wrote it, which batch of whose, from which definition, and which cut it covers.
A writer reads the newest note before it writes and so knows, loudly, whether its batch is in already. A commit
lands exactly behind the version that was read, or not at all (TABLE_MOVED): two writers can't both win.
Delta's own ``txnAppId`` is never used: a write at or below the last one seen is silently ignored there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from anabranch.errors import BrokenState
from anabranch.tables.changes import changes
from anabranch.tables.checksum import announce, confirm, withdraw
from anabranch.tables.cut import Cut
from anabranch.tables.refused import check_commit, refused, unreadable
from anabranch.tables.staging import StagedFile, add_actions

TABLE_PROPERTIES = {
    # Each tenth commit took 1.7-2.0 s with Delta's default of 10.
    "delta.checkpointInterval": "100",
    "delta.logRetentionDuration": "interval 30 days",
    "delta.deletedFileRetentionDuration": "interval 7 days",
}


@dataclass(frozen=True, slots=True)
class Note:
    """What a commit says of itself. ``batch`` is the idempotency key: it is unique among a writer's commits."""

    writer: str
    batch: str
    cut: Cut
    fingerprint: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def to_text(self) -> str:
        return json.dumps(
            {
                "anabranch": 1,
                "writer": self.writer,
                "batch": self.batch,
                "cut": self.cut.to_json(),
                "fingerprint": self.fingerprint,
                **self.extra,
            },
            separators=(",", ":"),
        )

    @staticmethod
    def from_text(text: str | None) -> Note | None:
        """The note in a commit's ``userMetadata``; None when the commit isn't one of ours (OPTIMIZE, say)."""
        try:
            content = json.loads(text or "")
        except ValueError:
            return None
        if not isinstance(content, dict) or content.pop("anabranch", None) != 1:
            return None
        cut = Cut.from_json(content.pop("cut"))
        return Note(content.pop("writer"), content.pop("batch"), cut, content.pop("fingerprint"), content)


@dataclass(frozen=True, slots=True)
class Committed:
    """A note, with the table version that carries it and the commit's time (ms since 1970)."""

    version: int
    note: Note
    commit_time_ms: int


def open_table(uri: str) -> DeltaTable | None:
    """The table at its newest version, or None where there is none. BrokenState TABLE_UNREADABLE."""
    try:
        found = DeltaTable(uri)
    except TableNotFoundError:
        return None
    except (DeltaError, OSError, ValueError) as error:
        raise unreadable(uri, error) from error
    check_commit(found)
    return found


def notes(table: DeltaTable | str, limit: int | None = None) -> Iterator[Committed]:
    """Our commits, newest first, from at most the ``limit`` newest of all commits; ends with the kept log."""
    found = open_table(table) if isinstance(table, str) else table
    for entry in found.history(limit) if found else ():
        note = Note.from_text(entry.get("userMetadata"))
        if note is not None:
            yield Committed(int(entry["version"]), note, int(entry["timestamp"]))


def newest(table: DeltaTable | str) -> Committed | None:
    """The newest commit of ours; None when the table doesn't exist."""
    found = open_table(table) if isinstance(table, str) else table
    if found is None:
        return None
    for limit in (1, 20, None):
        for committed in notes(found, limit):
            return committed
    raise BrokenState("NOTES_LOST", f"no commit of {found.table_uri} says what it covers")


def covering(table: DeltaTable | str) -> Committed | None:
    """The newest commit of ours, when the table's rows are what it left: for whoever believes its cut.

    Commits of others behind it that moved rows between files, or took back what they had done, are none of our
    business. BrokenState COMMIT_UNNAMED when one changed rows: then nothing says what the table covers.
    """
    found = open_table(table) if isinstance(table, str) else table
    committed = newest(found) if found is not None else None
    if found is None or committed is None or committed.version == found.version():
        return committed
    strangers = [v for v in range(committed.version + 1, found.version() + 1) if _changes_rows(found, v)]
    if strangers and set(DeltaTable(found.table_uri, version=committed.version).file_uris()) != set(found.file_uris()):
        raise BrokenState(
            "COMMIT_UNNAMED",
            f"{found.table_uri}: commit {strangers[0]} changed rows and says neither its cut nor who wrote it",
            state=f"version {committed.version} is the newest that is known to be right",
            next_step=f"restore the table to version {committed.version}, and let nobody else write to it",
            table=found.table_uri,
            versions=strangers,
        )
    return committed


def _changes_rows(table: DeltaTable, version: int) -> bool:
    made = changes(table, version)
    return bool(made.added or made.removed)


def create(
    uri: str, schema: pa.Schema, partition_by: Sequence[str], note: Note, properties: Mapping[str, str] | None = None
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
            commit_properties=_properties(note),
        )
    except CommitFailedError:  # "ignore" looks before it commits: another starter was first
        made = open_table(uri)
        if made is None:
            raise
        return made


def widen(table: DeltaTable, schema: pa.Schema, note: Note) -> int:
    """Add the columns and nested fields of ``schema`` that the table lacks, all nullable; returns the new version.

    No data file is touched: readers find null where a file lacks a field. Conflict TABLE_MOVED as ``append``. A field
    that is there as another type has to be found before: see ``landing.growth``.
    """
    fields = Schema.from_arrow(pa.schema([f.with_nullable(True) for f in schema])).fields
    try:
        table.alter.add_columns(list(fields), commit_properties=_properties(note))
    except (DeltaError, OSError) as error:
        raise refused(table, error) from error
    table.update_incremental()
    return table.version()


def append(table: DeltaTable, files: Sequence[StagedFile], note: Note) -> int:
    """Add staged files; returns the new version. Conflict TABLE_MOVED: nothing was written, read again."""
    return _commit(table, files, note, "append", None)


def replace(
    table: DeltaTable, files: Sequence[StagedFile], note: Note, partitions: tuple[str, Sequence[str]] | None
) -> int:
    """Replace exactly the partitions ``(column, values)`` by the staged files, in one step; None: everything.

    A partition that is named but has no file becomes empty. Files of other partitions are refused.
    """
    if partitions is None:
        return _commit(table, files, note, "overwrite", None)
    column, values = partitions
    strays = {f.partition[column] for f in files} - set(values)
    if strays:
        raise BrokenState("STRAY_PARTITION", f"files of {sorted(map(str, strays))} are no part of this replacement")
    if not values:
        return _commit(table, files, note, "append", None)
    return _commit(table, files, note, "overwrite", [(column, "in", list(values))])


def upsert(table: DeltaTable, rows: pa.Table, key: Sequence[str], note: Note, partition: str | None = None) -> int:
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
    try:
        (
            table.merge(
                rows,
                predicate=" and ".join(matches),
                source_alias="source",
                target_alias="target",
                commit_properties=_properties(note),
            )
            .when_matched_update_all()
            .when_not_matched_insert_all()
            .execute()
        )
    except (DeltaError, OSError) as error:
        raise refused(table, error) from error
    return table.version()


def _commit(
    table: DeltaTable,
    files: Sequence[StagedFile],
    note: Note,
    mode: str,
    filters: list[tuple[str, str, list[str]]] | None,
) -> int:
    columns = table.metadata().partition_columns
    before, announced = table.version(), None
    try:
        announced = announce(table, files) if mode == "append" and files else None
        table.create_write_transaction(
            add_actions(files), mode, table.schema(), columns, filters, commit_properties=_properties(note)
        )
    except (DeltaError, OSError) as error:
        if announced:
            withdraw(announced)
        raise refused(table, error) from error
    if announced:
        confirm(announced)
    table.update_incremental()
    return before + 1


def _properties(note: Note) -> CommitProperties:
    return CommitProperties(custom_metadata={"userMetadata": note.to_text()}, max_commit_retries=0)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
