"""What a replay has on disk, and taking it away."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from anabranch.change.replay.publish import owns_live
from anabranch.change.replay.state import PUBLISHED, ReplayState, forget, standing_of, write_standing
from anabranch.core.settings import Settings
from anabranch.lake.layout import replay_checkpoints, replay_mirrors, replay_table
from anabranch.views.definition import View


def finish(settings: Settings, standing: ReplayState, phase: str, said: str) -> ReplayState:
    """Write down how a replay has ended. What it has on disk goes first: who reads that it has ended finds nothing of
    it but the checkpoint of a whole one that is published, with which the live stream goes on."""
    view, version, run = standing.view, standing.version, standing.run
    folders = [Path(replay_table(settings, view, version, run)), replay_mirrors(settings, view, version) / run]
    if phase != PUBLISHED or standing.days:
        folders.append(replay_checkpoints(settings, view, version) / run)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):  # of other runs
            os.removedirs(folder.parent)
    forget(settings, standing)
    return write_standing(settings, replace(standing, phase=phase, said=said))


def clear_replaced(settings: Settings, view: View) -> None:
    """Delete the checkpoints of replays that were published and never went on, because another one came first."""
    for path in replaced(settings, view.name, view.version):
        shutil.rmtree(path)


def replaced(settings: Settings, view: str, version: int) -> list[Path]:
    """The checkpoints of replays that have ended, and whose turn it is not."""
    found = []
    for path in sorted(replay_checkpoints(settings, view, version).glob("*")):
        standing = standing_of(settings, view, version, path.name)
        if (standing is None or standing.ended) and not owns_live(settings, view, version, path):
            found.append(path)
    return found
