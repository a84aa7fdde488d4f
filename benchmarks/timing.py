"""Measuring: jobs in turn, the seconds spent in named functions, and what a stream reports of itself."""

from __future__ import annotations

import importlib
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from benchmarks.figures import Sample

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

PATIENCE = 900
"""Seconds after which a stream that doesn't end is stopped, and the benchmark fails."""
_STEPS = ("latestOffset", "walCommit", "queryPlanning", "addBatch", "commitOffsets")


def in_turn(jobs: Mapping[str, Callable[[], Sample]], runs: int, warm_ups: int) -> dict[str, list[Sample]]:
    """Run the jobs A B A B: what the machine does beside them meets all of them alike. Warm-up runs are not kept."""
    kept: dict[str, list[Sample]] = {name: [] for name in jobs}
    for number in range(-warm_ups, runs):
        for name, job in jobs.items():
            sample = job()
            kind = "warm-up" if number < 0 else f"run {number + 1} of {runs}"
            print(f"    {kind}: {name} {sample.seconds:.2f} s", flush=True)
            if number >= 0:
                kept[name].append(sample)
    return kept


@contextmanager
def beside(name: str, work: Callable[[], None]) -> Iterator[threading.Thread]:
    """Run ``work`` in a thread beside the block, which ends when it has; what it raised is raised at the end."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, name=name)
    thread.start()
    try:
        yield thread
    finally:
        thread.join()
    if failed:
        raise failed[0]


@contextmanager
def spans(names: Mapping[str, str]) -> Iterator[dict[str, float]]:
    """Seconds spent in functions (``stage: "module:function"``) while the block runs, in whatever thread.

    A function that several calls enter at once counts each of them.
    """
    spent: dict[str, float] = defaultdict(float)
    lock = threading.Lock()

    def timed(stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            begun = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                with lock:
                    spent[stage] += time.perf_counter() - begun

        return call

    with ExitStack() as stack:
        for stage, where in names.items():
            module, _, path = where.partition(":")
            owner: Any = importlib.import_module(module)
            *outer, function = path.split(".")
            for part in outer:
                owner = getattr(owner, part)
            stack.enter_context(patch.object(owner, function, timed(stage, getattr(owner, function))))
        yield spent


def finish(query: StreamingQuery) -> dict[str, float]:
    """Wait until an AvailableNow query has ended; the seconds of its steps over all micro-batches, and their number."""
    if not query.awaitTermination(PATIENCE):
        query.stop()
        raise TimeoutError(f"{query.name} hasn't ended after {PATIENCE} s")
    return steps(query)


def steps(query: StreamingQuery) -> dict[str, float]:
    """What ``recentProgress`` says of an ended query: seconds per step, summed over its micro-batches."""
    progress = [p for p in query.recentProgress if p.numInputRows]
    found = {step: sum(p.durationMs.get(step, 0) for p in progress) / 1000 for step in _STEPS}
    return {f"progress: {step}": seconds for step, seconds in found.items()}
