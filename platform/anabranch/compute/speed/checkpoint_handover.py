"""Replace the live checkpoint by a replay's, when the speed table's latest commit says that the replay owns the
table."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from anabranch.core.errors import TryAgain
from anabranch.lake import CommitMetadata, latest_commit, open_table
from anabranch.lake.streams.stream_checkpoint import checkpoint_id, delete
from anabranch.views import View

REPLAY = "replay"
"""A key in the commit metadata: the run of the replay that made the commit."""
_ADOPTED = ".adopted"
"""A marker file in a replay's checkpoint that a live stream has already used: it isn't linked again after somebody has
deleted the link."""
log = logging.getLogger(__name__)


def owner_of(note: CommitMetadata) -> str:
    """The id of the checkpoint whose stream owns a speed table."""
    return note.batch.partition(":")[0]


def adopt(table: str, live: Path, replays: Path) -> None:
    """Makes ``live`` a link to the checkpoint that owns ``table``, if that is a replay's.

    Called before each start of a stream, when neither checkpoint is in use. After a crash in between, the next call
    completes it. The replay's checkpoint isn't moved: a processor's state stores absolute paths of its schema files.
    """
    found = open_table(table)
    owner = owner_of(committed.note) if found is not None and (committed := latest_commit(found)) else ""
    successor = (
        None if id_of(live) == owner else next((path for path in replays.glob("*") if id_of(path) == owner), None)
    )
    if successor is not None and not (successor / _ADOPTED).exists():
        delete(live)
        live.parent.mkdir(parents=True, exist_ok=True)
        live.symlink_to(os.path.relpath(successor, live.parent))
        log.info("%s continues with the checkpoint of replay %s", table, successor.name)
    if live.is_symlink() and live.exists():
        (live / _ADOPTED).touch()


def id_of(checkpoint: Path) -> str | None:
    """The checkpoint's id; None if no stream was ever started from it."""
    return checkpoint_id(checkpoint) if (checkpoint / "metadata").exists() else None


def replaced_by_replay(view: View, run: object) -> TryAgain:
    """The error of the live stream that finds its table replaced by a replay."""
    return TryAgain(
        "REPLAYED",
        f"{view.name} v{view.version}: replay {run} has replaced the table",
        state="nothing of this micro-batch was written; the replay contains the same events",
        next_step="start the stream again: it continues with the replay's checkpoint",
        view=view.name,
        run=run,
    )
