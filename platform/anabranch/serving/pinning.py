"""One read's pinned state: both halves at one moment, and the half that serves each partition."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from threading import Lock

from anabranch.errors import BrokenState, TryAgain
from anabranch.serving.catalog import newest_speed
from anabranch.serving.choice import BATCH, HalfName, Prefer, choose, published_cuts
from anabranch.serving.routes import PATIENCE, check_not_retired, covers, route_of, this_reader
from anabranch.serving.snapshots import Snapshot, forget, snapshot
from anabranch.settings import Settings
from anabranch.tables import Cut
from anabranch.tables.layout import batch_table, routes_table, safe_name
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
_readers: OrderedDict[tuple[str, str], tuple[int, Cut]] = OrderedDict()
"""The version and the cut that each reader had last; of the last ones that read."""
_REMEMBERED = 100_000


def pin(
    settings: Settings,
    view: str,
    version: int | None,
    prefer: Prefer,
    partitions: Collection[date] | None,
    reader: str | None = None,
) -> Pinned:
    """The view as it is now; without a ``version``, as the view's route has it for ``reader``.

    BadInput VERSION_RETIRED. BrokenState CUT_WENT_BACK: its table covers less than this process has seen. TryAgain
    ROUTE_BEHIND: the version that the route leads to covers less than the reader has seen, and the one that it had was
    taken away.
    """
    if version is not None:
        route = route_of(settings, safe_name(view, "view"))
        check_not_retired(view, [version], route.retired if route else ())
    with _lock:  # a read that pinned later must not hold an older cut than one that pinned before
        chosen, speed = newest_speed(settings, view, version) if version else _routed(settings, view, reader)
        seen = _seen.get(speed.uri)
        if seen is not None and not speed.newest.note.cut.covers(seen):
            forget(speed.uri)
            chosen, speed = newest_speed(settings, view, chosen)
            if not speed.newest.note.cut.covers(seen):
                raise _went_back(view, chosen, seen, speed.newest.note.cut)
        _seen[speed.uri] = speed.newest.note.cut
        if version is None:
            _remember(settings, view, reader, chosen, speed.newest.note.cut)
        batch = snapshot(batch_table(settings, view, chosen)) if PARTITION in speed.schema.names else None
    halves = _halves(speed, batch, prefer)
    if partitions is not None:
        halves = {day: half for day, half in halves.items() if day in partitions}
    return Pinned(chosen, speed, batch, halves)


def _routed(settings: Settings, view: str, reader: str | None) -> tuple[int, Snapshot]:
    """The version that this reader gets, and its speed half: never at an older cut than the reader has had."""
    route = route_of(settings, safe_name(view, "view"))
    if route is None:
        return newest_speed(settings, view, None, first=True)
    place = _place(settings, view, reader)
    chosen, speed = newest_speed(settings, view, route.version_for(place[1]))
    before = _readers.get(place)
    if before is None or before[0] == chosen or covers(speed.newest.note.cut, before[1]):
        return chosen, speed
    changed = (datetime.now(UTC) - route.changed_at).total_seconds()
    if before[0] in route.shares or changed < PATIENCE:
        return newest_speed(settings, view, before[0])
    raise TryAgain(
        "ROUTE_BEHIND",
        f"{view} v{chosen} covers {speed.newest.note.cut}; this reader has seen {before[1]} of v{before[0]}",
        state=f"the route leads to v{chosen} since {changed:.0f} s: {route.why}",
        next_step="read again; anabranch status shows whether its stream runs",
    )


def _remember(settings: Settings, view: str, reader: str | None, version: int, cut: Cut) -> None:
    place = _place(settings, view, reader)
    _readers[place] = version, cut
    _readers.move_to_end(place)
    if len(_readers) > _REMEMBERED:
        _readers.popitem(last=False)


def _place(settings: Settings, view: str, reader: str | None) -> tuple[str, str]:
    """A view of one lake, and the name that the reader goes by."""
    return routes_table(settings, view), reader_name(settings, reader)


def reader_name(settings: Settings, reader: str | None) -> str:
    """The name that a reader goes by: its own, that of its process, or its user's."""
    return reader or settings.reader or this_reader()


def led_to(settings: Settings, view: str, reader: str) -> int:
    """The version that the route has for this reader; 0 without a route."""
    route = route_of(settings, view)
    return route.version_for(reader) if route else 0


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
