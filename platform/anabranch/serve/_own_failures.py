"""Which failed reads count against a view's version, and which are the reader's own.

A migration that counted the reader's own failures would roll a good version back.
"""

from __future__ import annotations

import errno
from typing import Final

from anabranch.core.errors import AnabranchError, BrokenState, TryAgain

_READERS_OWN: Final = ("FORMAT_NEWER", "HOME_UNREADABLE")
"""Codes for a reader whose package is too old, or whose process can't read the home."""
_NUMBERS: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
_TEXTS: Final = ("Too many open files", "Cannot allocate memory", "Out of Memory Error", "OutOfMemoryError")


def counts(error: AnabranchError) -> bool:
    """Return whether a read that failed with ``error``, before any row was read, is the version's fault."""
    ours = isinstance(error, (BrokenState, TryAgain)) or error.code == "VIEW_UNKNOWN"
    return ours and error.code not in _READERS_OWN and not is_exhausted(error)


def is_exhausted(error: BaseException | None) -> bool:
    """Return whether the reader's process has no memory or file handles left, by this error and its causes."""
    while error is not None:
        number = error.errno if isinstance(error, OSError) else None
        if isinstance(error, MemoryError) or number in _NUMBERS or any(text in str(error) for text in _TEXTS):
            return True
        error = error.__cause__
    return False


def reader_exhausted(what: str, error: BaseException) -> TryAgain:
    """The error READER_EXHAUSTED. ``what`` was read."""
    return TryAgain(
        "READER_EXHAUSTED",
        f"this process has no memory or file handles left to read {what}: {error}",
        state="the view can be read: this is not counted as a failed read of its version",
        next_step="read fewer days, columns or rows, or stream them (to_arrow_batches); raise the limit on open files "
        "(ulimit -n) if that is what it ran into",
    )
