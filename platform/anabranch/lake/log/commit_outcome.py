"""Finds out from a table's log whether a commit that ended with an error was written.

A commit can be written although its writer gets an error: delta-rs writes a checkpoint after each hundredth commit and
raises if that fails; a link may be made and the answer get lost. A writer that believed the error would write the same
rows again, or delete files that readers already use. So each commit carries a unique mark, and after an error the
writer looks for its mark in the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final
from uuid import uuid4

from anabranch.core.errors import TryAgain, root_cause
from anabranch.core.storage import path_of, storage_of
from anabranch.lake.log.archived_commits import LOG
from anabranch.lake.log.commit_log import message_of

NO_TABLE: Final = -1
"""The version that was read before the commit that creates a table."""
log = logging.getLogger(__name__)


def new_mark() -> str:
    """A unique id for one attempt to commit; it is stored in the commit's metadata."""
    return uuid4().hex


def commit_or_confirm(uri: str, read: int, mark: str, commit: Callable[[], object]) -> int:
    """Run ``commit``, which makes the version after ``read``; returns the version that carries ``mark``.

    An error of ``commit`` is raised only if no version carries the mark: then nothing was written. Raises TryAgain
    COMMIT_UNKNOWN if the log can't be read; the caller must then neither add nor remove anything.
    """
    try:
        commit()
    except Exception as error:
        version = _version_with_mark(uri, read, mark, error)
        if version is None:
            raise
        log.warning("%s: version %d was written, although its writer got: %s", uri, version, root_cause(error))
        return version
    return read + 1


def _version_with_mark(uri: str, read: int, mark: str, cause: Exception) -> int | None:
    """The version after ``read`` whose metadata has this mark, or None."""
    folder, version = path_of(uri), read + 1
    while True:
        try:
            message = message_of(folder, version)
        except FileNotFoundError:
            if read == NO_TABLE or _has_log(folder):
                return None
            raise _unknown(uri, version, cause) from cause
        except (OSError, ValueError):
            raise _unknown(uri, version, cause) from cause
        if mark in (message or ""):
            return version
        version += 1


def _has_log(folder: Path) -> bool:
    try:
        return storage_of(folder).holds(folder / LOG)
    except OSError:
        return False


def _unknown(uri: str, version: int, cause: Exception) -> TryAgain:
    return TryAgain(
        "COMMIT_UNKNOWN",
        f"{uri}: a commit ended with {root_cause(cause)}, and version {version} of its log can't be read",
        state="it is unknown whether the commit was written; none of its files was deleted",
        next_step="check that its disk can be read; the writer then reads the newest commit and continues from there",
        table=uri,
        version=version,
    )
