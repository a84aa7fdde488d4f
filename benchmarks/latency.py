"""From when something was seen to how long each record had to wait for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
from anabranch.lake import commit_history
from anabranch.lake.log.archived_commits import commit_file

from benchmarks.figures import percentile


@dataclass(frozen=True, slots=True)
class Sight:
    """At ``time`` (Unix seconds) everything below ``offsets`` (next offset per partition) was there."""

    time: float
    epoch: int
    offsets: Mapping[int, int] = field(hash=False)


def committed(uri: str, topic: str) -> list[Sight]:
    """The commits of a table in order, each at the time at which its file was written."""
    found = []
    for commit in commit_history(uri):
        position = commit.note.cut.positions.get(topic)
        if position is not None and position.epoch:
            file = commit_file(Path(uri), commit.version)
            found.append(Sight(file.stat().st_mtime, position.epoch, dict(position.offsets)))
    return sorted(found, key=lambda sight: (sight.epoch, sight.time))


def latencies(sent: pl.DataFrame, sights: Sequence[Sight]) -> list[float]:
    """For each record its seconds from append_time to the first sight that covers it, in ascending order."""
    waited: list[np.ndarray[tuple[int], np.dtype[np.float64]]] = []
    times = np.array([sight.time for sight in sights])
    for (partition,), records in sent.partition_by("partition", as_dict=True).items():
        ends = np.array([sight.offsets.get(int(partition), 0) for sight in sights])
        first = np.searchsorted(ends, records["offset"].to_numpy(), side="right")
        if (first == len(sights)).any():
            raise ValueError(f"records of partition {partition} were never seen")
        waited.append(times[first] - records["append_time"].dt.epoch("us").to_numpy() / 1e6)
    return sorted(np.concatenate(waited).tolist())


def summary(ordered: Sequence[float]) -> dict[str, float]:
    """Percentiles in seconds, of every record (not of every commit: a long wait counts for all that waited)."""
    shares = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "max": 1.0}
    return {name: percentile(ordered, share) for name, share in shares.items()}
