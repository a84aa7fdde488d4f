"""Writes and reads files with their hashes, and turns a disk's errors into ours."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from anabranch.core.errors import BrokenState, TryAgain

_CHUNK: Final = 1 << 20
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_RESERVE: Final = 10_000_000
"""Bytes that must stay free, besides a fiftieth of what is copied: names of files and folders need some, too."""


def write_hashed(path: Path, chunks: Iterable[bytes]) -> tuple[str, int]:
    """Write a file; returns the SHA-256 and the number of bytes that were written. On disk only after ``sync_disk``."""
    digest, size = hashlib.sha256(), 0
    with path.open("wb") as file:
        for chunk in chunks:
            digest.update(chunk)
            size += file.write(chunk)
    return digest.hexdigest(), size


def chunks_of(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk


def hash_of(path: Path) -> str:
    digest = hashlib.sha256()
    for chunk in chunks_of(path):
        digest.update(chunk)
    return digest.hexdigest()


def sync_disk(path: Path) -> None:
    """Have everything on disk that was written to the file system of ``path``, names included. Once for many files: an
    fsync for each took 50 ms on a busy disk. Raises OSError."""
    number = os.open(path, os.O_RDONLY)
    try:
        sync = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
        if sync is None:  # not Linux
            os.sync()
        elif sync(number):
            raise OSError(ctypes.get_errno(), f"{path} can't be synchronized: {os.strerror(ctypes.get_errno())}")
    finally:
        os.close(number)


def check_space(path: Path, needed: int, state: str) -> None:
    """Raises TryAgain DISK_FULL if ``needed`` bytes and a reserve aren't free where ``path`` is, or will be."""
    existing = next(each for each in (path, *path.parents) if each.exists())
    free, wanted = shutil.disk_usage(existing).free, needed + needed // 50 + _RESERVE if needed else 0
    if free < wanted:
        what = f"{free / 1e9:,.2f} GB are free, {wanted / 1e9:,.2f} GB are needed"
        raise _full(existing, what, state, free=free, needed=wanted)


@contextmanager
def disk_errors(path: Path, state: str) -> Iterator[None]:
    """Turns errors of the disk of ``path`` into TryAgain DISK_FULL or BrokenState BACKUP_UNWRITABLE. ``state``: what is
    true then."""
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: a zero byte in a name
        if isinstance(error, OSError) and error.errno in _FULL:
            raise _full(path, str(error.strerror), state) from error
        raise BrokenState(
            "BACKUP_UNWRITABLE",
            f"{str(path)!a} can't be read or written: {error}",
            state=state,
            next_step="check that its disk is mounted and writable; then run the same command again",
            folder=str(path),
        ) from error


def _full(path: Path, what: str, state: str, **fields: int) -> TryAgain:
    return TryAgain(
        "DISK_FULL",
        f"the disk of {path} has too little space: {what}",
        state=state,
        next_step="free some space there, or choose a folder on a larger disk; then run the same command again",
        **fields,
    )
