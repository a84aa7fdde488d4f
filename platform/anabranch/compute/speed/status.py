"""The status file of the speed process, for `anabranch status`: small, and replaced atomically."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from anabranch.core.control_file import ControlFile
from anabranch.core.errors import root_cause
from anabranch.core.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StateOperatorProgress

    from anabranch.compute.speed.view_stream import SpeedQuery


@dataclass(frozen=True, slots=True)
class ViewStatus:
    """The status of one view's stream. ``state`` is running, waiting (for the landing table), failed or retired; times
    are in ms. A view file that can't be loaded, whose views are unknown, has the state unread and version 0.

    ``state_rows`` and ``state_bytes``: the state that Spark keeps for the view, in memory and on disk.
    """

    view: str
    version: int
    state: str
    cut: str = ""
    batch: int | None = None
    rows: int = 0
    batch_ms: int = 0
    state_rows: int = 0
    state_bytes: int = 0
    committed_at_ms: int | None = None
    error: str = ""

    def __str__(self) -> str:
        return f"{self.view} v{self.version}" if self.version else self.view


@dataclass(frozen=True, slots=True)
class SpeedStatus:
    """The whole file: the views, and when it was written (ms since 1970)."""

    written_at_ms: int
    views: tuple[ViewStatus, ...]


STATUS: Final = ControlFile("status of the speed process", SpeedStatus)


def progress_file(settings: Settings) -> Path:
    return settings.run / "speed-progress.json"


def running(query: SpeedQuery) -> ViewStatus:
    """The status of a running stream: its latest micro-batch, as Spark reports it."""
    view, progress = query.view, query.lastProgress
    status = {"view": view.name, "version": view.version, "state": "running", "cut": str(query.sink.cut)}
    if not progress:
        return ViewStatus(**status)  # type: ignore[arg-type]
    return ViewStatus(
        **status,  # type: ignore[arg-type]
        batch=progress.batchId,
        rows=progress.numInputRows,
        batch_ms=progress.batchDuration,
        state_rows=sum(operator.numRowsTotal for operator in progress.stateOperators),
        state_bytes=sum(map(_bytes, progress.stateOperators)),
        committed_at_ms=query.sink.committed_at_ms,
    )


def with_known_state(found: ViewStatus, known: Mapping[tuple[str, int], ViewStatus]) -> ViewStatus:
    """``found`` with the size of its state from ``known``, if it has none of its own: Spark reports the state only with
    micro-batches, and a restarted stream runs none until new data comes."""
    last = known.get((found.view, found.version))
    if last is None or found.state != "running" or found.state_rows or found.state_bytes:
        return found
    return replace(found, state_rows=last.state_rows, state_bytes=last.state_bytes)


def unread(file: str, error: Exception) -> ViewStatus:
    """The status of a view file that can't be loaded."""
    return ViewStatus(file, 0, "unread", error=f"{type(error).__name__}: {root_cause(error)}")


def _bytes(operator: StateOperatorProgress) -> int:
    return operator.memoryUsedBytes + int(operator.customMetrics.get("rocksdbSstFileSize", 0))


def read(settings: Settings) -> list[ViewStatus]:
    """What the speed process wrote last; empty before its first run."""
    found = STATUS.read(progress_file(settings))
    return list(found.views) if found is not None else []


def write(settings: Settings, views: Iterable[ViewStatus]) -> None:
    STATUS.write(progress_file(settings), SpeedStatus(int(time.time() * 1000), tuple(views)))
