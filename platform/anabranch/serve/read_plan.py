"""One read's pinned state: both halves at one moment, and the half that serves each partition."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from threading import Lock

from anabranch.core.errors import AnabranchError, BrokenState
from anabranch.core.settings import Settings
from anabranch.lake import Cut
from anabranch.lake.layout import batch_table, routes_table, safe_name
from anabranch.serve.half_choice import BATCH, HalfName, Prefer, choose, published_cuts
from anabranch.serve.reader_log import record_behind, record_failed
from anabranch.serve.routes import Route, check_not_retired, covers, route_of, this_reader
from anabranch.serve.served_versions import newest_speed
from anabranch.serve.table_snapshots import Snapshot, forget, snapshot, snapshot_at
from anabranch.views.definition import PARTITION_DATE

BACK_SECONDS = 2.0
"""How long after a rollback a reader stays at the newest cut that it has seen, for the old version to come to it."""


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """What one read reads. ``halves`` says who serves each partition (None: the whole of a kappa view)."""

    version: int
    speed: Snapshot
    batch: Snapshot | None
    halves: Mapping[date | None, HalfName] = field(hash=False)
    behind: Cut | None = None
    """What the reader has seen of the version that it was taken back from, where this one doesn't cover it."""
    route: int = 0
    """The number of the route that led here; 0 without one, and for who names the version."""

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


@dataclass(frozen=True, slots=True)
class _Had:
    """What a reader had last: the version, where its speed table was then, and the newest cut it has seen of any."""

    version: int
    uri: str
    table_id: str
    table_version: int
    seen: Cut


_seen: dict[str, Cut] = {}
_lock = Lock()
_readers: OrderedDict[tuple[str, str], _Had] = OrderedDict()
"""By view and reader; of the last ones that read."""
_REMEMBERED = 100_000
_first_sight: OrderedDict[tuple[str, int], float] = OrderedDict()
"""When this process has seen a route first, by its table and number (seconds of a monotonic clock)."""
_ROUTES = 1_000


def pin(
    settings: Settings,
    view: str,
    version: int | None,
    prefer: Prefer,
    partitions: Collection[date] | None,
    reader: str | None = None,
) -> ReadPlan:
    """The view as it is now; without a ``version``, as the view's route has it for ``reader``.

    A reader whose route leads to another version stays at the newest cut that it has seen, until that version covers
    it (ADR 0031). BadInput VERSION_RETIRED. BrokenState CUT_WENT_BACK: its table covers less than this process has
    seen.
    """
    route = route_of(settings, safe_name(view, "view"))
    if version is not None:
        check_not_retired(view, [version], route.retired if route else ())
    with _lock:  # a read that pinned later must not hold an older cut than one that pinned before
        if version is not None:
            chosen, speed = _current(settings, view, version)
            behind = None
        else:
            chosen, speed, behind = _led(settings, view, route, reader)
        batch = snapshot(batch_table(settings, view, chosen)) if PARTITION_DATE in speed.schema.names else None
    halves = _halves(speed, batch, prefer)
    if partitions is not None:
        halves = {day: half for day, half in halves.items() if day in partitions}
    number = route.number if route and version is None else 0
    if behind is not None:
        record_behind(settings, view, chosen, reader_name(settings, reader), str(speed.newest.note.cut), route=number)
    return ReadPlan(chosen, speed, batch, halves, behind, number)


def _current(settings: Settings, view: str, version: int | None) -> tuple[int, Snapshot]:
    """The newest cut of this version (None: of the oldest that covers anything), never older than one before it."""
    chosen, speed = newest_speed(settings, view, version, first=True)
    seen = _seen.get(speed.uri)
    if seen is not None and not speed.newest.note.cut.covers(seen):
        forget(speed.uri)
        chosen, speed = newest_speed(settings, view, chosen)
        if not speed.newest.note.cut.covers(seen):
            raise _went_back(view, chosen, seen, speed.newest.note.cut)
    _seen[speed.uri] = speed.newest.note.cut
    return chosen, speed


def _led(settings: Settings, view: str, route: Route | None, reader: str | None) -> tuple[int, Snapshot, Cut | None]:
    """The version that this reader gets, its speed half, and the cut that the reader has seen where that is newer."""
    place = _place(settings, view, reader)
    had = _readers.get(place)
    version, stays = route.version_for(place[1]) if route else None, None
    if route is not None and version is not None and had is not None and had.version != version:
        stays = _staying(settings, route, place, version, had)
    chosen, speed = (had.version, stays) if had and stays else _current(settings, view, version)
    cut = speed.newest.note.cut
    behind = had.seen if had is not None and stays is None and not covers(cut, had.seen) else None
    if stays is not None:
        _readers.move_to_end(place)
    else:
        seen = cut.joined(had.seen) if had is not None else cut
        _remember(place, _Had(chosen, speed.uri, speed.table_id, speed.version, seen))
    return chosen, speed, behind


def _staying(settings: Settings, route: Route, place: tuple[str, str], version: int, had: _Had) -> Snapshot | None:
    """What the reader had last, where it has to stay at that; None where it may go to ``version``.

    It may when that covers what the reader has seen; when it is taken back, BACK_SECONDS after the route was set; and
    when there is nothing to stay at any more.
    """
    try:
        there = newest_speed(settings, route.view, version)[1].newest.note.cut
    except AnabranchError as error:
        stays = snapshot_at(had.uri, had.table_id, had.table_version)
        if stays is not None:  # this read doesn't fail, but a new reader's would
            record_failed(settings, route.view, version, place[1], error.code, engine="read", route=route.number)
        return stays
    if covers(there, had.seen):
        return None
    if route.sends_back(had.version, version) and _age(settings, route) >= BACK_SECONDS:
        return None
    return snapshot_at(had.uri, had.table_id, had.table_version)


def _age(settings: Settings, route: Route) -> float:
    """Seconds since a route was set. One that was set on another machine, or before a restart, is as old as the wall
    clock says, and at least as old as this process has known it."""
    place, now = (routes_table(settings, route.view), route.number), time.monotonic()
    first = _first_sight.setdefault(place, now)
    if len(_first_sight) > _ROUTES:
        _first_sight.popitem(last=False)
    known = route.moment.age() if route.moment else None
    return known if known is not None else max(now - first, (datetime.now(UTC) - route.changed_at).total_seconds())


def _remember(place: tuple[str, str], had: _Had) -> None:
    _readers[place] = had
    _readers.move_to_end(place)
    if len(_readers) > _REMEMBERED:
        _readers.popitem(last=False)


def _place(settings: Settings, view: str, reader: str | None) -> tuple[str, str]:
    """A view of one lake, and the name that the reader goes by."""
    return routes_table(settings, view), reader_name(settings, reader)


def reader_name(settings: Settings, reader: str | None) -> str:
    """The name that a reader goes by: its own, that of its process, or its user's."""
    return reader or settings.reader or this_reader()


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
