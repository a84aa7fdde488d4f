"""Turns the errors of a full disk, also those of Spark's tasks, into one that says what was loaded and what to do."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from anabranch.core.errors import AnabranchError, TryAgain, disk_error

NOTHING_LOADED: Final = "nothing of it was loaded; files before it were"
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_TEXTS: Final = ("No space left on device", "Disk quota exceeded")


@contextmanager
def full_disk(where: object, name: str, state: str = NOTHING_LOADED) -> Iterator[None]:
    """Raises TryAgain DISK_FULL instead of the error of a full disk: of ``where``, while ``name`` is loaded. Other
    errors pass."""
    try:
        yield
    except AnabranchError:
        raise
    except Exception as error:
        if not (reason := _reason(error)):
            raise
        raise TryAgain(
            "DISK_FULL",
            f"the disk of {where} has too little space for {name}: {reason}",
            state=state,
            next_step="free some space there; then load the same again: what has landed is skipped",
        ) from error


def _reason(error: Exception) -> str:
    """Why the disk took nothing; "" if that isn't what failed."""
    found = disk_error(error) or error
    if isinstance(found, OSError) and found.errno is not None:
        return str(found.strerror) if found.errno in _FULL else ""
    return next((text for text in _TEXTS if text in str(error)), "")
