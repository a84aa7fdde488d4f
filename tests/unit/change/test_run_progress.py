"""How far a run is: what its job writes down, and who reads it."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from anabranch.change.replay.state import CERTIFYING, PUBLISHED, ReplayState, write_state
from anabranch.change.run_progress import (
    REBUILD,
    RECONCILE,
    RunProgress,
    all_work,
    delete_progress,
    progress_text,
    read_progress,
    work_of,
    write_progress,
)
from anabranch.core.settings import Settings
from anabranch.lake.layout import VersionRef

pytestmark = pytest.mark.unit
VIEW = "delays"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path)


def at(seconds: float, **more: Any) -> RunProgress:
    """So many seconds after the start of a run over a month."""
    began = time.time() - seconds
    known = RunProgress(VIEW, 1, "run-1", REBUILD, 31, 26_314, began, updated=began + seconds)
    return replace(known, **more)


def test_days_events_tasks_and_the_time_left() -> None:
    assert str(at(21, written=12, tasks=3, all_tasks=8, estimated=65.0)) == (
        "rebuild: 12 of 31 days written, 26,314 events, 3 of 8 Spark tasks of this stage; for 21 s, about 44 s left"
    )
    assert str(at(50, step=RECONCILE, written=31, estimated=65.0)) == (
        "reconcile: 31 days, 26,314 events; for 50 s, about 15 s left"
    )
    assert str(at(100, estimated=65.0)).endswith("for 1 min 40 s, longer than estimated (1 min 5 s)")
    assert str(at(100)).endswith("too few earlier runs to say how long it takes")
    assert str(at(1, days=1)).startswith("rebuild: 0 of 1 day written")


def test_who_asks_sees_what_the_job_wrote_last_until_it_ends(settings: Settings) -> None:
    ref = VersionRef(settings, VIEW, 1)
    assert read_progress(ref, "run-1") is None
    written = at(20, written=3)
    write_progress(settings, written)
    assert read_progress(ref, "run-1") == written
    assert progress_text(ref, "run-1") == str(written)
    assert progress_text(ref, "run-2") == ""
    assert list(all_work(settings)) == [(VIEW, 1, "run-1", str(written))]
    delete_progress(settings, written)
    delete_progress(settings, written)
    assert list(all_work(settings)) == []


def test_a_job_that_was_killed_is_not_at_work(settings: Settings) -> None:
    write_progress(settings, replace(at(20), updated=time.time() - 61))
    write_progress(settings, at(20, run="torn"))
    (settings.home / "control" / "builds" / VIEW / "v1" / "torn.progress.json").write_text('{"view": ')
    assert list(work_of(VersionRef(settings, VIEW, 1))) == []


def test_replays_are_at_work_until_they_end(settings: Settings) -> None:
    ref = VersionRef(settings, VIEW, 1)
    now = ReplayState(
        VIEW, 1, "one", days="2013-01-01..2013-01-31", done=500, total=2_000, seconds=10.0, newest_day="2013-01-09",
    )  # fmt: skip
    write_state(settings, now)
    text = (
        "replay: streaming; 500 of 2,000 records (25%), 50 per second, 8 of 31 days, events up to 2013-01-09, "
        "about 30 s left"
    )
    assert list(work_of(ref)) == [("one", text)]
    assert progress_text(ref, "one") == text
    written = write_state(settings, replace(now, phase=CERTIFYING, done=2_000))
    ((_, text),) = work_of(ref)
    assert text.startswith("replay: certifying; 2,000 of 2,000 records (100%)")
    assert "left" not in text
    path = settings.home / "control" / "replays" / VIEW / "v1" / "one.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"updated_ms": written.updated_ms - 120_000}))
    ((_, text),) = work_of(ref)
    assert text.endswith(", last heard of 2 min ago")
    write_state(settings, replace(now, phase=PUBLISHED))
    assert list(all_work(settings)) == []


def test_a_name_that_no_view_has_and_a_torn_state_are_no_work(settings: Settings) -> None:
    write_state(settings, ReplayState(VIEW, 1, "one"))
    (settings.home / "control" / "replays" / VIEW / "v1" / "one.json").write_text("{")
    assert list(all_work(settings)) == []
    for folder in ("No View/v1", "orders/vX", "orders/v0"):
        (settings.home / "control" / "builds" / folder).mkdir(parents=True)
    assert list(all_work(settings)) == []
