"""Whether a commit is in: the table's log is asked, never the error.

A commit may land and its writer be told that it failed. delta-rs writes a checkpoint behind each hundredth commit and
raises where that can't be written; a link may be made and its answer get lost. Who believes the error writes the same
rows again, or takes away files that readers have by now. So each commit carries a mark, and after an error its own one
is looked for.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

from anabranch.core.errors import TryAgain, root_cause
from anabranch.lake.commit_log import message_of

log = logging.getLogger(__name__)


def new_mark() -> str:
    """What tells a commit from all others: it stands in its note."""
    return uuid4().hex


def settled(uri: str, read: int, mark: str, commit: Callable[[], object]) -> int:
    """Let ``commit`` make the version behind ``read``; the version that carries ``mark``.

    What ``commit`` raises is raised only where no version carries it: then nothing was written. TryAgain COMMIT_UNKNOWN
    where that can't be found out: whoever meets it adds nothing and removes nothing.
    """
    try:
        commit()
    except Exception as error:
        version = _carrying(uri, read, mark, error)
        if version is None:
            raise
        log.warning("%s: version %d is in, though whoever wrote it was told: %s", uri, version, root_cause(error))
        return version
    return read + 1


def _carrying(uri: str, read: int, mark: str, cause: Exception) -> int | None:
    """The version behind ``read`` whose note has this mark."""
    folder, version = Path(uri.removeprefix("file://")), read + 1
    while True:
        try:
            message = message_of(folder, version)
        except FileNotFoundError:
            if (folder / "_delta_log").is_dir():
                return None
            raise _unknown(uri, version, cause) from cause
        except (OSError, ValueError):
            raise _unknown(uri, version, cause) from cause
        if mark in (message or ""):
            return version
        version += 1


def _unknown(uri: str, version: int, cause: Exception) -> TryAgain:
    return TryAgain(
        "COMMIT_UNKNOWN",
        f"{uri}: a commit ended with {root_cause(cause)}, and version {version} of its log can't be read",
        state="whether the commit is in is not known; nothing of it was taken away",
        next_step="see that its disk can be read; whoever wrote reads the newest commit and goes on from there",
        table=uri,
        version=version,
    )
