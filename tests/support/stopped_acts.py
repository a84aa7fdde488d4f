"""What only one process may do at a time, up to the moment at which its process is stopped (SIGSTOP) in the middle.

Each runs in a process in which nothing else runs: it replaces a function of the platform for good."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
from anabranch.change.replay.control import exclusive
from anabranch.core.settings import Settings
from anabranch.ingest.files import _load_files
from anabranch.ingest.landing import epoch_pacing, log_trimming
from anabranch.lake.layout import EVERY, TableRef, VersionRef, existing_tables
from anabranch.operate.maintenance import _compaction_journal, _log_retention, _runner, _vacuum
from anabranch.operate.maintenance._report import Policy
from anabranch.operate.runtime import lifecycle
from anabranch.serve import retirement

from support.landed_sample import FLIGHTS
from support.small_platform import NAME


def _stops(*_: Any, **__: Any) -> Any:
    os.kill(os.getpid(), signal.SIGSTOP)


def _stop_at(module: object, name: str) -> None:
    pytest.MonkeyPatch().setattr(module, name, _stops, raising=False)


def _landing(settings: Settings) -> TableRef:
    return next(place for place in existing_tables(settings, *EVERY) if place.kind == "landing")


def replay(settings: Settings) -> None:
    with exclusive(VersionRef(settings, NAME, 1), "one"):
        _stops()


def drop(settings: Settings) -> None:
    _stop_at(retirement, "size")
    retirement.drop(VersionRef(settings, NAME, 1))


def maintenance(settings: Settings) -> None:
    _stop_at(_compaction_journal, "tidy")
    _runner.maintain(settings)


def load(settings: Settings) -> None:
    _stop_at(_load_files, "open_landing")
    no_engine: Any = None  # it isn't needed yet
    _load_files.load(no_engine, settings, FLIGHTS, [f"{settings.home}.csv"])


def vacuum(settings: Settings) -> None:
    _stop_at(_vacuum, "replay_over")
    list(_vacuum.vacuum(settings, _landing(settings), Policy(), plan=False))


def log_retention(settings: Settings) -> None:
    _stop_at(_log_retention, "open_table")
    list(_log_retention.clean(settings, _landing(settings), Policy(), plan=False))


def stream(settings: Settings) -> None:
    _stop_at(log_trimming, "position_in")
    checkpoint = VersionRef(settings, NAME, 1).speed_checkpoint
    log_trimming.keep_commits(settings, _landing(settings).uri, checkpoint)


def pace(settings: Settings) -> None:
    """In the question whether a run is under way, which alone computes with it."""
    _stop_at(epoch_pacing, "abs")
    with epoch_pacing.run_first(settings):
        pass
    epoch_pacing.run_under_way(settings)


def up(settings: Settings) -> None:
    with lifecycle._start_lock(settings):
        _stops()
