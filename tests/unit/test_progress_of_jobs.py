"""What counts as progress of a stream: its own jobs, not what the engine forgets of them."""

from __future__ import annotations

from collections.abc import Hashable
from types import SimpleNamespace
from typing import Any

import pytest
from anabranch.core.engine.tasks import progress_of

pytestmark = pytest.mark.unit


def engine(jobs: dict[int, tuple[int, ...]], active: tuple[int, ...] = ()) -> Any:
    """``jobs``: each job of the run that the engine still knows, with its stages; ``active``: those that run."""
    running = [job for job, stages in jobs.items() if set(stages) & set(active)]
    tracker = SimpleNamespace(
        getJobIdsForGroup=lambda _: list(jobs),
        getActiveJobsIds=lambda: running,
        getActiveStageIds=lambda: list(active),
        getJobInfo=lambda job: SimpleNamespace(stageIds=list(jobs[job])),
        getStageInfo=lambda _: SimpleNamespace(numActiveTasks=1),
    )
    stage = SimpleNamespace(numCompleteTasks=lambda: 3, numFailedTasks=lambda: 0)
    store = SimpleNamespace(lastStageAttempt=lambda _: stage)
    context = SimpleNamespace(sc=lambda: SimpleNamespace(statusStore=lambda: store))
    return SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: tracker, _jsc=context))


def progress(jobs: dict[int, tuple[int, ...]], active: tuple[int, ...] = ()) -> Hashable:
    return progress_of(engine(jobs, active), "run")


def test_jobs_that_the_engine_forgets_are_no_progress() -> None:
    """Else a stream that hangs goes on for as long as the engine forgets its jobs, one after another."""
    assert progress({7: (1,), 8: (2,), 9: (3,)}) == progress({8: (2,), 9: (3,)}) == progress({9: (3,)})


def test_a_job_that_starts_or_ends_is_progress() -> None:
    ended, started = progress({7: (1,)}), progress({7: (1,), 8: (2,)}, active=(2,))
    assert len({ended, started, progress({7: (1,), 8: (2,)})}) == 3
