"""Reads a whole file into parts: Parquet files of rows as bytes, numbered from 0, in the engine's scratch folder.

So a file that can't be read to its end lands nothing, and memory doesn't depend on its size.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from anabranch.contracts import Topic
from anabranch.ingest.files._addresses import AVRO, CSV, JSON_LINES, Address
from anabranch.ingest.files._columns import avro_rows, csv_rows, parquet_rows
from anabranch.ingest.files._json_lines import Unreadable, read_lines, refused

SCHEMA: Final = pa.schema([("offset", pa.int64()), ("value", pa.binary())])
PART_BYTES: Final = 128 << 20
"""Of the values in a part, which ends earlier than by its rows; a row is never cut."""
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
    """The rows of a file, which lies at ``local``, as parts of ``part_rows`` rows or ``PART_BYTES`` below ``folder``.

    Where parts end may change from load to load: a load goes on at a row. Raises BadInput FILE_UNREADABLE."""
    folder.mkdir(parents=True)
    parts = list[Part]()
    try:
        for rows in _whole_parts(read_rows(address, local, topic), part_rows):
            first = parts[-1].until if parts else 0
            part = Part(folder / f"part-{len(parts):05}.parquet", first, first + len(rows))
            numbers = pa.array(range(part.first, part.until), pa.int64())
            table = pa.table([numbers, rows], schema=SCHEMA)
            size = max(len(rows) // _ROW_GROUPS + 1, 1)
            pq.write_table(table, part.path, row_group_size=size, use_dictionary=False)
            parts.append(part)
    except Unreadable as error:
        raise refused(address.name, str(error)) from error
    return Prepared(parts)


def _whole_parts(chunks: Iterator[pa.Array], part_rows: int) -> Iterator[pa.Array]:
    """The rows of each part."""
    waiting, count, size = list[pa.Array](), 0, 0
    for chunk in chunks:
        ends = np.cumsum(pc.binary_length(chunk).to_numpy(zero_copy_only=False))
        begin = 0
        while begin < len(chunk):
            before = int(ends[begin - 1]) if begin else 0
            fitting = int(np.searchsorted(ends, before + PART_BYTES - size, side="right"))
            end = min(max(fitting, begin + (not count)), begin + part_rows - count)
            waiting.append(chunk[begin:end])
            count, size = count + end - begin, size + (int(ends[end - 1]) - before if end > begin else 0)
            if end < len(chunk) or count == part_rows:
                yield pa.concat_arrays(waiting).cast(pa.binary())
                waiting, count, size = [], 0, 0
            begin = end
    if count:
        yield pa.concat_arrays(waiting).cast(pa.binary())


def read_rows(address: Address, local: Path, topic: Topic) -> Iterator[pa.Array]:
    """The bytes of the rows, in chunks. Raises Unreadable."""
    if address.format == JSON_LINES:
        return (pa.array(lines, pa.binary()) for lines in read_lines(local, packed=address.packed))
    if address.format == CSV:
        return csv_rows(local, topic, packed=address.packed)
    return avro_rows(local, topic) if address.format == AVRO else parquet_rows(local, topic)
