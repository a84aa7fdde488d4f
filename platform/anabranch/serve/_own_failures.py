"""Which failed reads count against a view's version, and which are the reader's own.

A migration that counted the reader's own failures would roll a good version back.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from traceback import walk_tb
from types import ModuleType
from typing import Final

from anabranch.core.errors import AnabranchError, BadInput, BrokenState, TryAgain, root_cause

READ_VERSION: Final = "read_version"
"""A field of errors: the version that was read, where it may be another one than the route names (a reader is held)."""

_READERS_OWN: Final = ("FORMAT_NEWER", "HOME_UNREADABLE")
"""Codes for a reader whose package is too old, or whose process can't read the home."""
READERS_INSTALLATION: Final = (ImportError,)
"""Unexpected errors that aren't the version's fault: a package is missing where the reader runs."""
_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT)
_EXHAUSTED_TEXTS: Final = (
    *("Too many open files", "Cannot allocate memory", "Out of Memory Error", "OutOfMemoryError"),
    *("No space left on device", "Disk quota exceeded"),
)
_DENIED: Final = (errno.EACCES, errno.EPERM, errno.EROFS)
_DENIED_TEXTS: Final = ("Permission denied", "Operation not permitted", "Read-only file system")
"""For errors of engines that have no number."""
_OF_TABLES: Final = (".parquet", "_delta_log")
"""Files of the version itself: nobody may read them if their writer has given nobody the right."""
_MISFIT: Final = (AttributeError, TypeError, NotImplementedError)
"""What a package raises that is called by one that expects another version of it. Not their subclasses: Arrow's own
errors are some, and are about data."""
_ENGINES: Final = ("duckdb", "pyarrow", "polars", "pandas", "numpy", "deltalake")


def counts(error: AnabranchError) -> bool:
    """Return whether a read that failed with ``error``, before any row was read, is the version's fault."""
    ours = isinstance(error, (BrokenState, TryAgain)) or error.code == "VIEW_UNKNOWN"
    return ours and error.code not in _READERS_OWN and readers_own("the view", error) is None


def readers_own(what: str, error: BaseException) -> AnabranchError | None:
    """Return the error to raise instead if the reader's process, account or installation caused this one; ``what`` was
    read. None: they didn't."""
    for cause in _causes(error):
        number, text = cause.errno if isinstance(cause, OSError) else None, str(cause)
        if isinstance(cause, MemoryError) or number in _EXHAUSTED or any(known in text for known in _EXHAUSTED_TEXTS):
            return _exhausted(what, error)
        if number in _DENIED or any(known in text for known in _DENIED_TEXTS):
            return None if _is_of_table(error) else _denied(what, error)
        if type(cause) in _MISFIT and _is_of_engine(cause):
            return _misfit(what, cause)
    return None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _is_of_table(error: BaseException) -> bool:
    """Whether an error or its causes are about a file of a table; ours say that a table can't be read."""
    return any(
        isinstance(each, AnabranchError) or any(mark in str(each) for mark in _OF_TABLES) for each in _causes(error)
    )


def _is_of_engine(error: BaseException) -> bool:
    """Whether it was raised in the code of an engine, or is about something that an engine doesn't have. Not seen: a
    function in C that refuses an argument of ours."""
    lacking = getattr(error, "obj", None)
    modules = [lacking.__name__ if isinstance(lacking, ModuleType) else type(lacking).__module__]
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    modules += [str(frame.f_globals.get("__name__")) for frame in frames[-1:]]
    return any(module.partition(".")[0].lstrip("_") in _ENGINES for module in modules)


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
    """The error READ_FAILED: ``what`` can't be read, and nothing knows ``error`` better. Or that of ``readers_own``."""
    if own := readers_own(what, error):
        return own
    return BrokenState(
        "READ_FAILED",
        f"{what} can't be read: {type(error).__name__}: {root_cause(error)}",
        state="nothing was read",
        next_step="read again; if that fails too, run anabranch doctor, which says what is damaged",
    )


_UNCOUNTED: Final = "this is not counted as a failed read of the view's version"


def _exhausted(what: str, error: BaseException) -> TryAgain:
    return TryAgain(
        "READER_EXHAUSTED",
        f"this process has no memory, file handles or disk space left to read {what}: {error}",
        state=f"the view can be read: {_UNCOUNTED}",
        next_step="read fewer days, columns or rows, or stream them (to_arrow_batches); raise the limit on open files "
        "(ulimit -n), or free space in the folder for temporary files, if that is what it ran into",
    )


def _denied(what: str, error: BaseException) -> BadInput:
    return BadInput(
        "READER_DENIED",
        f"this process lacks the right to a file that it needs to read {what}: {error}",
        state=f"nothing was read; {_UNCOUNTED}",
        next_step="give the account of this process the right to the file that the error names",
    )


def _misfit(what: str, error: BaseException) -> BadInput:
    return BadInput(
        "READER_INSTALLATION",
        f"{what} can't be read with the packages of this process: {type(error).__name__}: {error}",
        state=f"nothing was read; {_UNCOUNTED}",
        next_step="install the versions that Anabranch asks for: pip check says which don't fit",
    )
