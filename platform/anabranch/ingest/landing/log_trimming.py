"""Keeps landing's Delta log short, because streams list it at each poll (ADR 0029)."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from anabranch.core.atomic_files import locked
from anabranch.core.errors import BrokenState
from anabranch.core.settings import Settings
from anabranch.core.storage import DISK
from anabranch.lake.commits import CHECKPOINT_COMMITS
from anabranch.lake.layout import landing_files_lock
from anabranch.lake.log.archived_commits import archive_commits, restore_commits
from anabranch.lake.log.delta_tables import delta_table, folder_of
from anabranch.lake.streams.stream_checkpoint import newest_batch, position_in

_LOCK_SECONDS: Final = 20.0
"""Seconds: the streams of other views start behind this one, and the service tries it again."""
LOGGER = logging.getLogger(__name__)
_IDLE_SECONDS: Final = 24 * 3600.0
"""Seconds: a stream that was idle for so long doesn't hold back the log; its commits are restored when it starts."""


class LogTrimmer:
    """Archives old commits of one landing table. Called by that table's landing only, after each of its commits."""

    def __init__(self, settings: Settings, table: DeltaTable) -> None:
        self._settings, self._table = settings, table
        self._seen = -1

    def committed(self) -> None:
        """Archive old commits if there is a new checkpoint. Raises nothing: the epoch is already committed, and the
        next checkpoint is another chance."""
        checkpoint = (self._table.version() + 1) // CHECKPOINT_COMMITS
        if checkpoint == self._seen:
            return
        self._seen = checkpoint
        try:
            with locked(landing_files_lock(self._settings)):
                archive_commits(folder_of(self._table), self._needed())
        except BlockingIOError:
            LOGGER.info("%s: a replay starts, or files are deleted: archiving no commits now", self._table.table_uri)
        except (OSError, BrokenState, DeltaError) as error:
            LOGGER.warning("%s: could not archive old commits: %s", self._table.table_uri, error)

    def _needed(self) -> int | None:
        """The oldest version that an active stream still needs; None if there is none. Raises BrokenState, and OSError
        if that isn't known. (A clock that is set ahead makes streams look idle; their commits are restored.)"""
        table_id, found = str(self._table.metadata().id), list[int | None]()
        streams = self._settings.checkpoints / "speed"
        for checkpoint in (streams / view / v for view in DISK.names(streams) for v in DISK.names(streams / view)):
            if any(time.time() - written < _IDLE_SECONDS for written in _planned_at(checkpoint)):
                found.append(position_in(checkpoint, table_id))
        return min((each for each in found if each is not None), default=None)


def keep_commits(settings: Settings, landing: str, checkpoint: Path) -> None:
    """Restore the commits of the table at ``landing`` that a stream from ``checkpoint`` needs, and keep them while the
    stream makes progress. Raises BrokenState CHECKPOINT_UNREADABLE, TryAgain LOCK_HELD, or OSError."""
    table = delta_table(landing)
    with locked(landing_files_lock(settings), shared=True, wait=_LOCK_SECONDS):
        position = position_in(checkpoint, str(table.metadata().id))
        if position is not None:
            os.utime(_newest_plan(checkpoint))
            restore_commits(folder_of(table), position)


def _planned_at(checkpoint: Path) -> Iterator[float]:
    """When the stream planned its newest micro-batch (seconds since 1970); empty before its first. Raises as
    ``newest_batch``, and OSError."""
    with suppress(FileNotFoundError, NotADirectoryError):
        yield _newest_plan(checkpoint).stat().st_mtime


def _newest_plan(checkpoint: Path) -> Path:
    return checkpoint / "offsets" / str(newest_batch(checkpoint, "offsets"))
