"""One read's pinned state: both halves at one moment, and the half that serves each partition."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import date
from threading import Lock

from anabranch.errors import BrokenState
from anabranch.serving.catalog import newest_speed
from anabranch.serving.choice import BATCH, HalfName, Prefer, choose, published_cuts
from anabranch.serving.snapshots import Snapshot, forget, snapshot
from anabranch.settings import Settings
from anabranch.tables import Cut
from anabranch.tables.layout import batch_table
from anabranch.views.definition import PARTITION


@dataclass(frozen=True, slots=True)
class Pinned:
    """What one read reads. ``halves`` says who serves each partition (None: the whole of a kappa view)."""

    version: int
    speed: Snapshot
    batch: Snapshot | None
    halves: Mapping[date | None, HalfName] = field(hash=False)

    @property
    def cut(self) -> Cut:
        return self.speed.newest.note.cut

    def files(self) -> list[str]:
        """The Parquet files to read, in the order of the partitions."""
        paths: list[str] = []
        for partition, half in self.halves.items():
            source = self.batch if half == BATCH and self.batch is not None else self.speed
            paths.extend(source.files.get(partition, ()))
        return paths


_seen: dict[str, Cut] = {}
_lock = Lock()


def pin(
    settings: Settings, view: str, version: int | None, prefer: Prefer, partitions: Collection[date] | None
) -> Pinned:
    """The view as it is now. BrokenState CUT_WENT_BACK: its table covers less than this process has seen."""
    with _lock:  # a read that pinned later must not hold an older cut than one that pinned before
        chosen, speed = newest_speed(settings, view, version)
        seen = _seen.get(speed.uri)
        if seen is not None and not speed.newest.note.cut.covers(seen):
            forget(speed.uri)
            chosen, speed = newest_speed(settings, view, chosen)
            if not speed.newest.note.cut.covers(seen):
                raise _went_back(view, chosen, seen, speed.newest.note.cut)
        _seen[speed.uri] = speed.newest.note.cut
        batch = snapshot(batch_table(settings, view, chosen)) if PARTITION in speed.schema.names else None
    halves = _halves(speed, batch, prefer)
    if partitions is not None:
        halves = {day: half for day, half in halves.items() if day in partitions}
    return Pinned(chosen, speed, batch, halves)


def _halves(speed: Snapshot, batch: Snapshot | None, prefer: Prefer) -> dict[date | None, HalfName]:
    published = published_cuts(batch.newest.note) if batch else {}
    return choose(speed.changed, published, speed.newest.note.cut, prefer)


def _went_back(view: str, version: int, seen: Cut, now: Cut) -> BrokenState:
    return BrokenState(
        "CUT_WENT_BACK",
        f"{view} v{version} covers {now}, but {seen} has been read already",
        state="nothing was read",
        next_step="its speed table was restored from an older state: replay the view",
        seen=str(seen),
        now=str(now),
    )
