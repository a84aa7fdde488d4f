"""A replay's checkpoint takes the place of the live one: the newest note of the speed table says whose turn it is."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from anabranch.core.errors import TryAgain
from anabranch.lake import CommitMetadata, latest_commit
from anabranch.lake.commits import open_table
from anabranch.lake.stream_checkpoint import checkpoint_id, delete
from anabranch.views.definition import View

REPLAY = "replay"
"""In a note: the run of the replay that made the commit."""
_ADOPTED = ".adopted"
"""In a checkpoint that was given to a live stream once: who deletes the link to it wants it no more."""
log = logging.getLogger(__name__)


def owner_of(note: CommitMetadata) -> str:
    """The id of the checkpoint whose stream a speed table belongs to."""
    return note.batch.partition(":")[0]


def adopt(table: str, live: Path, replays: Path) -> None:
    """Make ``live`` a link to the checkpoint that owns ``table``, if that is a replay's. Called before each start, when
    no stream runs over either of them; a kill in between is mended by the next call.

    It stays where it is: a processor's state knows the files of its schema by their whole path.
    """
    found = open_table(table)
    owner = owner_of(committed.note) if found is not None and (committed := latest_commit(found)) else ""
    heir = None if id_of(live) == owner else next((path for path in replays.glob("*") if id_of(path) == owner), None)
    if heir is not None and not (heir / _ADOPTED).exists():
        delete(live)
        live.parent.mkdir(parents=True, exist_ok=True)
        live.symlink_to(os.path.relpath(heir, live.parent))
        log.info("%s goes on with the checkpoint of replay %s", table, heir.name)
    if live.is_symlink() and live.exists():
        (live / _ADOPTED).touch()


def id_of(checkpoint: Path) -> str | None:
    """Its id; None where no stream was ever started from it."""
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
