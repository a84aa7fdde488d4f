"""Commits that only move rows between files: a compaction is one, and nobody's writer has to mind it.

Such a commit carries the note of the commit before it, and beside that what it has moved. So it is known who made it,
what the table covers is in its newest commit still, and no epoch, batch or publication seems to be there twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from anabranch.lake.commit_log import changes, folder_of

MOVED: Final = "moved"
"""In a note: that its commit moves rows only, and whose note it carries."""
_TRIES = 20
Made = TypeVar("Made")


def is_move(table: DeltaTable, version: int) -> bool:
    """Whether the commit that made ``version`` is one of ours that changes no row."""
    try:
        made = changes(table, version)
        said = json.loads(made.message or "")
    except (FileNotFoundError, ValueError):
        return False
    return isinstance(said, dict) and MOVED in said and not (made.added or made.removed)


def unchanged(table: DeltaTable, since: int) -> bool:
    """Bring ``table`` up to its newest version; whether its rows are those of version ``since``."""
    table.update_incremental()
    return all(is_move(table, version) for version in range(since + 1, table.version() + 1))


def retry_over_rewrites(table: DeltaTable, commit: Callable[[], Made]) -> Made:
    """What ``commit`` gives, which commits right behind the version that ``table`` is at. Where a move was quicker it
    is called again: the rows that it was decided upon are the same. CommitFailedError when anything else was."""
    for _ in range(_TRIES):
        before = table.version()
        try:
            return commit()
        except CommitFailedError:
            if not unchanged(table, before) or table.version() == before:
                raise
    return commit()


def log_of(table: DeltaTable) -> Path:
    return folder_of(table) / "_delta_log"
