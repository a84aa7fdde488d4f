"""Delete a replay's files when it ends, and checkpoints that are no longer used."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from anabranch.change.replay.publish import owns_live
from anabranch.change.replay.state import (
    PUBLISHED,
    ReplayState,
    delete_control,
    has_control,
    list_states,
    read_state,
    write_state,
)
from anabranch.core.settings import Settings
from anabranch.lake.layout import VersionRef


def finish(settings: Settings, state: ReplayState, phase: str, said: str) -> ReplayState:
    """Store how a replay ended, then delete its files. A kill in between leaves files of an ended replay, which
    whoever takes the lock of the version's replays next deletes."""
    ended = write_state(settings, replace(state, phase=phase, said=said))
    delete_files(settings, ended)
    return ended


def delete_files(settings: Settings, ended: ReplayState) -> None:
    """Delete all of an ended replay but its state, and the checkpoint of a published replay of the whole view, with
    which the live stream continues. Safe to repeat. Call it with the lock of the version's replays."""
    for folder in _folders(settings, ended):
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):  # not empty: other runs have folders there
            os.removedirs(folder.parent)
    delete_control(settings, ended)


def incompletely_deleted(ref: VersionRef) -> list[ReplayState]:
    """Return the ended replays of a version whose files a kill has kept from being deleted."""
    ended = (state for state in list_states(ref) if state.ended)
    return [
        state
        for state in ended
        if has_control(ref.settings, state) or any(folder.exists() for folder in _folders(ref.settings, state))
    ]


def _folders(settings: Settings, ended: ReplayState) -> list[Path]:
    ref, run = VersionRef(settings, ended.view, ended.version), ended.run
    folders = [ref.replay_tables / run, ref.replay_mirrors / run]
    return folders if ended.phase == PUBLISHED and not ended.days else [*folders, ref.replay_checkpoints / run]


def delete_unused_checkpoints(ref: VersionRef) -> None:
    """Delete the checkpoints of ended replays that the live stream doesn't use, because another one replaced them."""
    for path in unused_checkpoints(ref):
        shutil.rmtree(path)


def unused_checkpoints(ref: VersionRef) -> list[Path]:
    """Return the checkpoints of ended replays that don't own the live table."""
    unused = []
    for path in sorted(ref.replay_checkpoints.glob("*")):
        state = read_state(ref, path.name)
        if (state is None or state.ended) and not owns_live(ref, path):
            unused.append(path)
    return unused
