"""Commits that only move rows between files, like a compaction: other writers repeat their commit after them.

Such a commit carries a copy of the metadata of the commit before it, and what it has moved. So its writer is known, the
newest commit still says what the table covers, and no epoch, batch or publication seems to be committed twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from anabranch.lake.log.commit_log import changes
from anabranch.lake.log.delta_tables import folder_of

MOVED: Final = "moved"
"""The key in the metadata of a commit that only moves rows; its value names the commit whose metadata it carries."""
_TRIES = 20
Result = TypeVar("Result")


def is_move(table: DeltaTable, version: int) -> bool:
    """Whether ``version`` was made by a commit of ours that changes no row."""
    try:
        made = changes(table, version)
        metadata = json.loads(made.message or "")
    except (FileNotFoundError, ValueError):
        return False
    return isinstance(metadata, dict) and MOVED in metadata and not (made.added or made.removed)


def unchanged(table: DeltaTable, since: int) -> bool:
    """Update ``table`` to its newest version; returns whether its rows are still those of version ``since``."""
    table.update_incremental()
    return all(is_move(table, version) for version in range(since + 1, table.version() + 1))


def retry_over_rewrites(table: DeltaTable, commit: Callable[[], Result]) -> Result:
    """Returns the result of ``commit``, which commits the version after that of ``table``. Calls it again if a commit
    that only moves rows was faster: the decision is still right. Otherwise raises its CommitFailedError."""
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
