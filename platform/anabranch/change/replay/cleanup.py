"""Delete a replay's files when it ends, and checkpoints that are no longer used."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from anabranch.change.replay.publish import owns_live
from anabranch.change.replay.state import PUBLISHED, ReplayState, delete_control, read_state, write_state
from anabranch.core.settings import Settings
from anabranch.lake.layout import VersionRef


def finish(settings: Settings, state: ReplayState, phase: str, said: str) -> ReplayState:
    """Store how a replay ended, after its files are deleted: an ended replay has no files, except the checkpoint of a
    published replay of the whole view, with which the live stream continues."""
    ref, run = VersionRef(settings, state.view, state.version), state.run
    folders = [ref.replay_tables / run, ref.replay_mirrors / run]
    if phase != PUBLISHED or state.days:
        folders.append(ref.replay_checkpoints / run)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):  # not empty: other runs have folders there
            os.removedirs(folder.parent)
    delete_control(settings, state)
    return write_state(settings, replace(state, phase=phase, said=said))


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
