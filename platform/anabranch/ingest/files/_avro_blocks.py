"""Reads an Avro container file some blocks at a time: Polars reads whole files only, and not all (``_avro_rows``).

A container is a header (schema, codec, a sync marker) and blocks, each with its number of rows, its bytes and the
marker. A header with some of the blocks behind it is a container again.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa

from anabranch.core.extras import needs_extras
from anabranch.ingest.files._json_lines import Unreadable

_MAGIC: Final = b"Obj\x01"
_SYNC: Final = 16
_AT_ONCE: Final = 32 << 20
"""Bytes of blocks that are decoded together."""
_MAX_HEADER: Final = 16 << 20


def avro_tables(path: Path) -> Iterator[pa.Table]:
    """The rows as tables, in order. Raises Unreadable; BadInput EXTRA_MISSING without Polars."""
    with needs_extras():
        import polars as pl

        from anabranch.ingest.files._avro_rows import tables_by_row
    try:
        with path.open("rb") as file:
            header = _header(file)
            file.seek(0)
            if (tables := tables_by_row(file)) is not None:
                yield from tables
                return
            file.seek(len(header))
            for blocks in _groups(file, header[-_SYNC:]):
                yield pl.read_avro(io.BytesIO(header + blocks)).to_arrow()
    except Unreadable:
        raise
    except BaseException as error:  # a panic of Polars is no Exception
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise Unreadable(f"its rows can't be decoded: {error}") from error


def _header(file: io.BufferedReader) -> bytes:
    """The bytes up to the first block."""
    if file.read(len(_MAGIC)) != _MAGIC:
        raise Unreadable("it is no Avro container file")
    while count := _long(file):
        if count < 0:
            _long(file)
        for _ in range(2 * abs(count)):
            _skip(file, _long(file))
    _skip(file, _SYNC)
    end = file.tell()
    file.seek(0)
    return file.read(end)


def _groups(file: io.BufferedReader, sync: bytes) -> Iterator[bytes]:
    while True:
        begin = file.tell()
        while file.tell() - begin < _AT_ONCE and file.peek(1):
            _long(file)
            _skip(file, _long(file))
            if file.read(_SYNC) != sync:
                raise Unreadable(f"the block that ends at byte {file.tell()} is damaged or cut off")
        size = file.tell() - begin
        if not size:
            return
        file.seek(begin)
        yield file.read(size)


def _skip(file: io.BufferedReader, size: int) -> None:
    if size < 0 or (file.tell() < _MAX_HEADER and size > 1 << 40):
        raise Unreadable("its header is damaged")
    file.seek(size, io.SEEK_CUR)


def _long(file: io.BufferedReader) -> int:
    """A number as Avro writes it: seven bits a byte, zigzag."""
    value = shift = 0
    while True:
        byte = file.read(1)
        if not byte or shift > 63:
            raise Unreadable("it is cut off")
        value |= (byte[0] & 0x7F) << shift
        if not byte[0] & 0x80:
            return (value >> 1) ^ -(value & 1)
        shift += 7
