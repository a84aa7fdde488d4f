"""Chooses the small files of a table that are merged, and writes the merged files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.core.errors import BrokenState
from anabranch.core.storage import storage_of
from anabranch.ingest.landing.table.schema import epochs_build, epochs_of_file
from anabranch.lake.file_commits import DataFile
from anabranch.lake.files import (
    BUILDS,
    NULL_PARTITION,
    StagedFile,
    describe,
    float_columns,
    footer_columns,
    parquet_file,
)
from anabranch.lake.layout import Kind
from anabranch.operate.maintenance._report import Policy

_ROWS, _BYTES = 200_000, 64 * 2**20
"""A row group is written once it has this many rows, or this many bytes in memory."""


@dataclass(frozen=True, slots=True)
class Group:
    """Files of one partition that become one, in the staging folder ``build``."""

    files: tuple[DataFile, ...] = field(hash=False)
    build: str

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


def groups_of(kind: Kind, files: Sequence[DataFile], policy: Policy) -> list[Group]:
    """Returns the groups to merge. Afterwards each partition has fewer than ``few`` files smaller than half the target
    size; all others have at least half of it.

    Landing's files are merged in the order of their epochs, and the folder's name has the epoch range: a reader of what
    landed since an epoch opens no older file.
    """
    target = policy.target(kind)
    partitions: dict[tuple[tuple[str, str | None], ...], list[DataFile]] = {}
    for file in files:
        if file.size < target / 2:
            partitions.setdefault(tuple(sorted(file.partition.items())), []).append(file)
    found = []
    for _, small in sorted(partitions.items(), key=lambda item: str(item[0])):
        for full, group in _filled(sorted(small, key=_order), target, policy.at_once):
            if len(group) >= (2 if full else policy.few):
                found.append(Group(tuple(group), _build(kind, group)))
    return found


def _filled(files: Sequence[DataFile], target: int, at_once: int) -> Iterator[tuple[bool, list[DataFile]]]:
    """Yields groups of about the target size, each with whether it reached a limit."""
    group, size = list[DataFile](), 0
    for file in files:
        group.append(file)
        size += file.size
        if size >= target or len(group) >= at_once:
            yield True, group
            group, size = [], 0
    if group:
        yield False, group


def _order(file: DataFile) -> tuple[int, int, str]:
    epochs = epochs_of_file(file.path)
    return (*(epochs or (0, 0)), file.path)


def _build(kind: Kind, files: Sequence[DataFile]) -> str:
    epochs = [epochs_of_file(file.path) for file in files] if kind == "landing" else []
    known = [each for each in epochs if each is not None]
    if known and len(known) == len(files):
        return epochs_build(min(low for low, _ in known), max(high for _, high in known))
    return f"merged-{uuid4().hex}"


def merge(uri: str, schema: pa.Schema, group: Group) -> StagedFile:
    """Writes the rows of ``group`` into one file, in the order of its files, with the table's current columns.

    ``schema``: the table's. Holds one row group in memory at a time. Raises BrokenState FILES_MISSING, or ROWS_LOST if
    the new file has another number of rows than the old ones; it is then not used.
    """
    partition = group.files[0].partition
    columns = pa.schema([column for column in schema if column.name not in partition])
    folder = Path(uri) / BUILDS / group.build
    for column, value in partition.items():
        folder /= f"{column}={quote(NULL_PARTITION if value is None else value)}"
    target, expected = folder / "part-00000.parquet", 0
    bounded = footer_columns(columns, _floats(uri, columns, group))
    with (
        storage_of(target).writing(target) as sink,
        pq.ParquetWriter(
            sink, columns, compression="snappy", coerce_timestamps="us", write_statistics=bounded
        ) as writer,
    ):
        held, rows, size = list[pa.Table](), 0, 0
        for file in group.files:
            data = _read(Path(uri) / file.path, columns)
            held.append(data)
            rows, size, expected = rows + data.num_rows, size + data.nbytes, expected + data.num_rows
            if rows >= _ROWS or size >= _BYTES:
                writer.write_table(pa.concat_tables(held))
                held, rows, size = [], 0, 0
        if held:
            writer.write_table(pa.concat_tables(held))
    made = describe(target, uri)
    if made.rows != expected:
        raise BrokenState(
            "ROWS_LOST",
            f"{target} has {made.rows} rows, but the {len(group.files)} files that it was merged from have {expected}",
            state="the table is unchanged",
            next_step="check the disk, then run anabranch maintain",
        )
    return StagedFile(made.path, made.size, made.rows, dict(partition), made.stats)


def _floats(uri: str, columns: pa.Schema, group: Group) -> Iterator[pa.Table]:
    """Yields the float columns, which may hold a NaN, file by file."""
    names = float_columns(columns)
    wanted = pa.schema([columns.field(name) for name in names])
    return (_read(Path(uri) / file.path, wanted) for file in group.files if names)


def _read(path: Path, columns: pa.Schema) -> pa.Table:
    try:
        with parquet_file(path) as file:
            data = file.read(columns=[n for n in columns.names if n in file.schema_arrow.names], use_threads=False)
    except FileNotFoundError as error:
        raise BrokenState(
            "FILES_MISSING", f"{path} is missing", state="the table is unchanged", next_step="anabranch doctor"
        ) from error
    known = set(data.column_names)
    arrays = [data[c.name].cast(c.type) if c.name in known else pa.nulls(data.num_rows, c.type) for c in columns]
    return pa.table(arrays, schema=columns)
