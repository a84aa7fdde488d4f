"""Which failed reads count against a view's version, and which are the reader's own.

A migration that counted the reader's own failures would roll a good version back.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from anabranch.core.errors import AnabranchError, BrokenState, TryAgain, root_cause

READ_VERSION: Final = "read_version"
"""A field of errors: the version that was read, where it may be another one than the route names (a reader is held)."""

_READERS_OWN: Final = ("FORMAT_NEWER", "HOME_UNREADABLE")
"""Codes for a reader whose package is too old, or whose process can't read the home."""
_NUMBERS: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
READERS_INSTALLATION: Final = (ImportError,)
"""Unexpected errors that aren't the version's fault: a package is missing where the reader runs."""
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


@contextmanager
def read_errors(what: str, version: int | None = None) -> Iterator[None]:
    """Turn unexpected errors into ours, so that they are counted like any other. ``what`` is read; errors say that it
    is ``version``, if that is given."""
    try:
        yield
    except AnabranchError as error:
        if version is not None:
            error.fields[READ_VERSION] = version
        raise
    except READERS_INSTALLATION:
        raise
    except Exception as error:
        failure = read_failed(what, error)
        if version is not None:
            failure.fields[READ_VERSION] = version
        raise failure from error


def read_failed(what: str, error: BaseException) -> AnabranchError:
    """The error READ_FAILED: ``what`` can't be read, and nothing knows ``error`` better. Or READER_EXHAUSTED."""
    if is_exhausted(error):
        return reader_exhausted(what, error)
    return BrokenState(
        "READ_FAILED",
        f"{what} can't be read: {type(error).__name__}: {root_cause(error)}",
        state="nothing was read",
        next_step="read again; if that fails too, run anabranch doctor, which says what is damaged",
    )


def reader_exhausted(what: str, error: BaseException) -> TryAgain:
    """The error READER_EXHAUSTED. ``what`` was read."""
    return TryAgain(
        "READER_EXHAUSTED",
        f"this process has no memory or file handles left to read {what}: {error}",
        state="the view can be read: this is not counted as a failed read of its version",
        next_step="read fewer days, columns or rows, or stream them (to_arrow_batches); raise the limit on open files "
        "(ulimit -n) if that is what it ran into",
    )
