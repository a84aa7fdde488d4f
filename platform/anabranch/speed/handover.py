"""A replay's checkpoint takes the place of the live one: the newest note of the speed table says whose turn it is."""

from __future__ import annotations

import logging
import os
import shutil
from contextlib import suppress
from pathlib import Path

from anabranch.errors import TryAgain
from anabranch.tables import Note, newest
from anabranch.tables.checkpoints import checkpoint_id
from anabranch.tables.commits import open_table
from anabranch.views.definition import View

REPLAY = "replay"
"""In a note: the run of the replay that made the commit."""
_BEFORE = ".before"
log = logging.getLogger(__name__)


def owner_of(note: Note) -> str:
    """The id of the checkpoint whose stream a speed table belongs to."""
    return note.batch.partition(":")[0]


def adopt(table: str, live: Path, replays: Path) -> None:
    """Put the checkpoint that owns ``table`` in the place of ``live``, if it is a replay's. Called before each start,
    when no stream runs over either of them; a kill in between is mended by the next call."""
    before = live.with_name(live.name + _BEFORE)
    found = open_table(table)
    owner = owner_of(committed.note) if found is not None and (committed := newest(found)) else ""
    heir = None if _id(live) == owner else next((path for path in replays.glob("*") if _id(path) == owner), None)
    if heir is not None:
        if live.exists():
            shutil.rmtree(before, ignore_errors=True)
            live.rename(before)
        heir.rename(live)
        with suppress(OSError):  # of other replays
            os.removedirs(replays)
        log.info("%s goes on with the checkpoint of replay %s", table, heir.name)
    shutil.rmtree(before, ignore_errors=True)


def _id(checkpoint: Path) -> str | None:
    return checkpoint_id(checkpoint) if (checkpoint / "metadata").exists() else None


def replayed(view: View, run: object) -> TryAgain:
    return TryAgain(
        "REPLAYED",
        f"{view.name} v{view.version}: replay {run} has replaced the table",
        state="nothing of this micro-batch was written; the replay has what it would have",
        next_step="start the stream again: it goes on with the replay's checkpoint",
        view=view.name,
        run=run,
    )
