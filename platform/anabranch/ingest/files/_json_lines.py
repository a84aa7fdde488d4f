"""Reads the lines of a file as they are, in chunks. Empty lines are no rows."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from anabranch.core.errors import BadInput

_CHUNK: Final = 16 << 20
MAX_LINE: Final = 64 << 20
"""Bytes. A longer line means that the file doesn't consist of lines."""
_BOM: Final = b"\xef\xbb\xbf"


class Unreadable(Exception):
    """A file that can't be read to its end: why, in the words of its format."""


def open_file(path: Path, *, packed: bool) -> BinaryIO:
    return gzip.open(path, "rb") if packed else path.open("rb")  # type: ignore[return-value]


def read_lines(path: Path, *, packed: bool = False, blank: bool = False) -> Iterator[list[bytes]]:
    """The lines without their ends, in lists; ``blank``: with the blank ones, as empty bytes. Raises Unreadable."""
    left, first = b"", True
    try:
        with open_file(path, packed=packed) as file:
            while chunk := file.read(_CHUNK):
                if first:
                    first = False
                    chunk = chunk.removeprefix(_BOM)
                    _check_begin(chunk)
                *whole, left = (left + chunk).split(b"\n")
                if len(left) > MAX_LINE:
                    raise Unreadable(f"a line has more than {MAX_LINE >> 20} MB: it has no lines")
                if rows := _rows(whole, blank):
                    yield rows
    except (OSError, EOFError, zlib.error) as error:
        raise Unreadable(f"it can't be read to its end: {error}") from error
    if left and (rows := _rows([left], blank)):
        yield rows


def _rows(lines: list[bytes], blank: bool) -> list[bytes]:
    rows = (line.removesuffix(b"\r") if line and not line.isspace() else b"" for line in lines)
    return [row for row in rows if row or blank]


def _check_begin(chunk: bytes) -> None:
    if chunk.lstrip()[:1] == b"[":
        raise Unreadable("it begins with an array; a record a line is needed (jq -c '.[]' makes that)")


def refused(name: str, why: str) -> BadInput:
    """The error for a file of which nothing is landed."""
    return BadInput(
        "FILE_UNREADABLE",
        f"{name}: {why}",
        state="nothing of it was landed",
        next_step="correct the file, and load it again; what has landed of others is skipped",
        file=name,
    )
