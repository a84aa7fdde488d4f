"""Landing's log is kept short enough to be listed with each look of a stream (ADR 0029)."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from anabranch.core.atomic_files import locked
from anabranch.core.errors import BrokenState
from anabranch.core.settings import Settings
from anabranch.lake.archived_commits import bring_back, set_aside
from anabranch.lake.commit_log import folder_of
from anabranch.lake.commits import CHECKPOINT_COMMITS
from anabranch.lake.layout import landing_files_lock
from anabranch.lake.stream_checkpoint import newest_batch, position_in
from deltalake import DeltaTable

LOGGER = logging.getLogger(__name__)
_REST: Final = 24 * 3600.0
"""Seconds: a stream that hasn't moved for so long doesn't hold the log; what it needs comes back when it starts."""


class LogLength:
    """Called by the landing of one table only, behind each of its commits."""

    def __init__(self, settings: Settings, table: DeltaTable) -> None:
        self._settings, self._table = settings, table
        self._seen = -1

    def committed(self) -> None:
        """Set old commits aside when there is a new checkpoint. Nothing is raised: the commit is in, and the next
        checkpoint is another chance."""
        checkpoint = (self._table.version() + 1) // CHECKPOINT_COMMITS
        if checkpoint == self._seen:
            return
        self._seen = checkpoint
        try:
            with locked(landing_files_lock(self._settings)):
                set_aside(folder_of(self._table), self._needed())
        except BlockingIOError:
            LOGGER.info("%s: a replay begins, or files are deleted: no commit is set aside now", self._table.table_uri)
        except (OSError, BrokenState) as error:
            LOGGER.warning("%s: old commits stay in its log: %s", self._table.table_uri, error)

    def _needed(self) -> int | None:
        """The oldest version that a stream which moves still needs; None where none does. BrokenState."""
        table_id, found = str(self._table.metadata().id), list[int | None]()
        for checkpoint in (self._settings.checkpoints / "speed").glob("*/v*"):
            if any(time.time() - written < _REST for written in _moved(checkpoint)):
                found.append(position_in(checkpoint, table_id))
        return min((each for each in found if each is not None), default=None)


def hold(settings: Settings, landing: str, checkpoint: Path) -> None:
    """See to it that what a stream from ``checkpoint`` needs of the log of the table at ``landing`` is there, and stays
    there while the stream moves. BrokenState CHECKPOINT_UNREADABLE; OSError."""
    table = DeltaTable(landing)
    with locked(landing_files_lock(settings), shared=True, wait=True):
        position = position_in(checkpoint, str(table.metadata().id))
        if position is not None:
            os.utime(_newest_plan(checkpoint))
            bring_back(folder_of(table), position)


def _moved(checkpoint: Path) -> Iterator[float]:
    """When the stream has planned its newest micro-batch (seconds since 1970); nothing before its first."""
    with suppress(OSError, ValueError):
        yield _newest_plan(checkpoint).stat().st_mtime


def _newest_plan(checkpoint: Path) -> Path:
    return checkpoint / "offsets" / str(newest_batch(checkpoint, "offsets"))
