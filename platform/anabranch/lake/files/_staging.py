"""Stages data files: they are written first, and one small commit makes them part of a table afterwards.

No reader sees a staged file before a commit names it, so a crash in between leaves only an unused file.
Files are staged in the table's own folder, below ``builds/<build>/``, so a commit never copies data.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from anabranch.core.errors import BrokenState, root_cause
from anabranch.core.storage import DISK, path_of, storage_of
from anabranch.lake.files._statistics import footer_columns, statistics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
BUILDS = "builds"
_FILE = "part-00000.parquet"


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A Parquet file below a table's folder that no commit names yet. ``path`` is relative to the table."""

    path: str
    size: int
    rows: int
    partition: Mapping[str, str | None] = field(hash=False)
    stats: str = "{}"


def stage_arrow(
    data: pa.Table, uri: str, build: str, partition_by: str | None, indexed: Collection[str] | None = None
) -> list[StagedFile]:
    """Write ``data`` below the table at ``uri``: one file for each value of ``partition_by`` (a date column). For
    ``indexed`` see ``statistics``."""
    if data.num_rows == 0:
        return []
    if partition_by is None:
        return [_write(data, uri, f"{BUILDS}/{build}/{_FILE}", {}, indexed)]
    staged = []
    for value in pc.unique(data[partition_by]).to_pylist():
        mask = pc.is_null(data[partition_by]) if value is None else pc.equal(data[partition_by], pa.scalar(value))
        text = None if value is None else str(value)
        path = f"{BUILDS}/{build}/{partition_by}={quote(text or NULL_PARTITION)}/{_FILE}"
        part = data.filter(mask).drop_columns([partition_by])
        staged.append(_write(part, uri, path, {partition_by: text}, indexed))
    return staged


def stage_frame(frame: DataFrame, uri: str, build: str, partition_by: str | None) -> list[StagedFile]:
    """The same for a Spark DataFrame of any size: the executors write it in one job. Raises BrokenState
    STAGING_FAILED."""
    from py4j.protocol import Py4JJavaError

    folder = path_of(uri) / BUILDS / build
    storage = storage_of(folder)
    writer = frame.write.mode("overwrite")
    if partition_by is not None:
        writer = writer.partitionBy(partition_by)
    try:
        writer.parquet(storage.uri(folder))
    except Py4JJavaError as error:  # not an error in the author's code: those have types of their own in pyspark
        raise BrokenState(
            "STAGING_FAILED",
            f"{folder} can't be written: {root_cause(error)}",
            state="no commit names any of it",
            next_step="check that its disk has free space and is writable; then try again",
            folder=str(folder),
        ) from error
    files = sorted(entry.path for entry in storage.entries(folder) if entry.path.suffix == ".parquet")
    with ThreadPoolExecutor(8) as pool:
        return [staged for staged in pool.map(lambda file: describe(file, uri), files) if staged.rows]


def stage_links(source: str, paths: Sequence[str], uri: str, build: str) -> list[StagedFile]:
    """Stage data files of the table at ``source`` (``paths`` relative to it) below the table at ``uri``: as hard links
    where both are on one file system, else as copies. Files without rows are left out."""
    base, folder = path_of(source), path_of(uri) / BUILDS / build

    def link(number: int, path: str) -> StagedFile:
        # Of the old path only the partition: otherwise it would grow with each link of a link.
        partition = [part for part in Path(path).parts[:-1] if "=" in part]
        file = folder.joinpath(*partition, f"part-{number:05d}.parquet")
        storage_of(file).copy(base / path, file)
        return describe(file, uri)

    with ThreadPoolExecutor(8) as pool:
        return [staged for staged in pool.map(link, range(len(paths)), paths) if staged.rows]


def restage(data: pa.Table, uri: str, file: StagedFile) -> StagedFile:
    """Rewrite a staged file with other content, under another name: Hadoop keeps a checksum file for the old one."""
    old = path_of(uri) / file.path
    new = old.with_name(f"mended-{old.name}")
    mended = _write(data, uri, str(new.relative_to(path_of(uri))), file.partition)
    storage_of(old).remove(old)
    return mended


def _write(
    data: pa.Table, uri: str, path: str, partition: Mapping[str, str | None], indexed: Collection[str] | None = None
) -> StagedFile:
    target = path_of(uri) / path
    bounded = footer_columns(data.schema, [data])
    footer = list[pq.FileMetaData]()
    with storage_of(target).writing(target) as file:
        form = {"compression": "snappy", "coerce_timestamps": "us", "write_statistics": bounded}
        pq.write_table(data, file, **form, metadata_collector=footer)
        size = file.tell()
    return StagedFile(path, size, data.num_rows, partition, statistics(footer[0], data.select, indexed))


@contextmanager
def parquet_file(path: Path) -> Iterator[pq.ParquetFile]:
    """Opens a data file of a table, wherever it is stored. Raises OSError; FileNotFoundError if there is none."""
    if (storage := storage_of(path)) is DISK:  # Arrow's own reader: the other one holds Python's lock
        with pq.ParquetFile(path) as opened:
            yield opened
    else:
        with storage.reading(path) as content, pq.ParquetFile(content) as opened:
            yield opened


def describe(file: Path, uri: str) -> StagedFile:
    """Describes a Parquet file below the table at ``uri``, from its path and its footer."""
    relative = file.relative_to(path_of(uri))
    partition: dict[str, str | None] = {}
    for part in relative.parts[:-1]:
        column, equals, value = part.partition("=")
        if equals:
            partition[column] = None if value == NULL_PARTITION else unquote(value)
    with parquet_file(file) as opened:
        stats = statistics(opened.metadata, lambda names: opened.read(columns=list(names), use_threads=False))
        rows = opened.metadata.num_rows
    return StagedFile(str(relative), storage_of(file).size(file), rows, partition, stats)


def add_actions(files: Sequence[StagedFile]) -> list[Any]:
    """The actions that delta-rs commits for staged files."""
    from deltalake.transaction import AddAction

    now = int(time.time() * 1000)
    return [AddAction(f.path, f.size, dict(f.partition), now, True, f.stats) for f in files]
