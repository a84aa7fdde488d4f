"""Reads a whole file into parts: Parquet files of rows as bytes, numbered from 0, in the engine's scratch folder.

So a file that can't be read to its end lands nothing, and memory doesn't depend on its size.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.contracts import Topic
from anabranch.ingest.files._addresses import AVRO, CSV, JSON_LINES, Address
from anabranch.ingest.files._columns import avro_rows, csv_rows, parquet_rows
from anabranch.ingest.files._json_lines import Unreadable, read_lines, refused

SCHEMA: Final = pa.schema([("offset", pa.int64()), ("value", pa.binary())])
_ROW_GROUPS: Final = 4
"""In a part: the tasks of the engine share them."""


@dataclass(frozen=True, slots=True)
class Part:
    """The rows from ``first`` to the one before ``until``."""

    path: Path
    first: int
    until: int


@dataclass(frozen=True, slots=True)
class Prepared:
    parts: Sequence[Part]

    @property
    def rows(self) -> int:
        return self.parts[-1].until if self.parts else 0


def content_hash(path: Path) -> str:
    """The SHA-256 of the file's bytes. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def prepare(address: Address, local: Path, topic: Topic, folder: Path, part_rows: int) -> Prepared:
    """The rows of a file, which lies at ``local``, as parts below ``folder``. Raises BadInput FILE_UNREADABLE."""
    folder.mkdir(parents=True)
    parts = list[Part]()
    waiting, count, done = list[pa.Array](), 0, 0

    def write(rows: pa.Array) -> None:
        nonlocal done
        path = folder / f"part-{len(parts):05}.parquet"
        numbers = pa.array(range(done, done + len(rows)), pa.int64())
        table = pa.table([numbers, rows], schema=SCHEMA)
        pq.write_table(table, path, row_group_size=max(len(rows) // _ROW_GROUPS + 1, 1), use_dictionary=False)
        parts.append(Part(path, done, done + len(rows)))
        done += len(rows)

    try:
        for rows in read_rows(address, local, topic):
            waiting.append(rows)
            count += len(rows)
            while count >= part_rows:
                whole = pa.concat_arrays(waiting)
                write(whole[:part_rows])
                waiting, count = [whole[part_rows:]], count - part_rows
        if count:
            write(pa.concat_arrays(waiting))
    except Unreadable as error:
        raise refused(address.name, str(error)) from error
    return Prepared(parts)


def read_rows(address: Address, local: Path, topic: Topic) -> Iterator[pa.Array]:
    """The bytes of the rows, in chunks. Raises Unreadable."""
    if address.format == JSON_LINES:
        return (pa.array(lines, pa.binary()) for lines in read_lines(local, packed=address.packed))
    if address.format == CSV:
        return csv_rows(local, topic, packed=address.packed)
    return avro_rows(local, topic) if address.format == AVRO else parquet_rows(local, topic)
