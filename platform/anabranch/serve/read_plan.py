"""The plan of one read: both halves pinned at one moment, and the half that serves each partition."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Collection, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from threading import Lock

from anabranch.core.errors import AnabranchError, BadInput, BrokenState
from anabranch.core.home_format import check_home
from anabranch.core.settings import Settings, user_at_host
from anabranch.lake.cut import Cut
from anabranch.lake.layout import VersionRef, routes_table, safe_name
from anabranch.serve._batch_at_cut import BatchAtCut, batch_at, files_exist
from anabranch.serve._own_failures import READ_VERSION, counts, read_errors
from anabranch.serve.half_choice import BATCH, HalfName, Prefer, choose
from anabranch.serve.reader_log import record_behind, record_failed
from anabranch.serve.routes import Route, check_not_retired, covers, route_of
from anabranch.serve.served_versions import newest_speed
from anabranch.serve.table_snapshots import Snapshot, forget, snapshot, snapshot_at
from anabranch.views.model.definition import PARTITION_DATE

BACK_SECONDS = 2.0
"""How long after a rollback a reader keeps the newest cut that it has seen, while the old version may catch up."""


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """What one read reads. ``halves``: the half that serves each partition (None: the whole of a kappa view).
    ``batch``: the batch half, by default as of the cut (``_batch_at_cut``)."""

    version: int
    speed: Snapshot
    batch: Snapshot | None
    halves: Mapping[date | None, HalfName] = field(hash=False)
    behind: Cut | None = None
    """After a rollback: the cut that the reader has seen of the newer version, if this version doesn't cover it."""
    route: int | None = 0
    """The number of the route that chose the version, or that gives readers to the version of a read by number; 0
    without a route. None: a read by number of a version that has no readers, whose failures no migration asks for."""
    earlier: Mapping[date, int] = field(default_factory=dict, hash=False)
    """The version of the batch table that has a day, if it isn't that of ``batch``."""

    @property
    def cut(self) -> Cut:
        return self.speed.newest.note.cut

    def files(self) -> list[str]:
        """Return the Parquet files to read, in the order of the partitions."""
        paths: list[str] = []
        for partition, half in self.halves.items():
            source = self.batch if half == BATCH and self.batch is not None else self.speed
            paths.extend(source.files.get(partition, ()))
        return paths

    def has_files(self) -> bool:
        """Whether all of them are still there, as far as the disk answers."""
        with suppress(OSError):
            return files_exist(self.files())
        return True

    def tables(self) -> dict[tuple[str, int], list[date | None]]:
        """Return the tables to read, each by its URI and version, with its partitions. Without any partition it is the
        speed table."""
        found: dict[tuple[str, int], list[date | None]] = {}
        for partition, half in self.halves.items():
            table = self.speed.uri, self.speed.version
            if half == BATCH and self.batch is not None:
                earlier = self.earlier.get(partition) if partition is not None else None
                table = self.batch.uri, self.batch.version if earlier is None else earlier
            found.setdefault(table, []).append(partition)
        return found or {(self.speed.uri, self.speed.version): []}


@dataclass(frozen=True, slots=True)
class _LastRead:
    """A reader's last read: its version, the speed table at that time, and the newest cut seen of any version."""

    version: int
    uri: str
    table_id: str
    table_version: int
    seen: Cut


_seen: dict[str, Cut] = {}
_lock = Lock()
_readers: OrderedDict[tuple[str, str], _LastRead] = OrderedDict()
"""By view and reader, least recent first."""
_MAX_READERS = 100_000
_first_sight: OrderedDict[tuple[str, int], float] = OrderedDict()
"""When this process first saw a route, by its table and number (seconds of the monotonic clock)."""
_MAX_ROUTES = 1_000


def pin(
    settings: Settings,
    view: str,
    version: int | None,
    prefer: Prefer,
    partitions: Collection[date] | None,
    reader: str | None = None,
) -> ReadPlan:
    """Pin the view as it is now. Without a ``version``, the view's route chooses it for ``reader``.

    A reader whose route changed to another version keeps the newest cut that it has seen, until that version covers it
    (ADR 0031). Raises BadInput VERSION_RETIRED; BrokenState CUT_WENT_BACK when the table covers less than this process
    has seen, DAYS_EXPIRED when neither half has a day at the cut any more, or FORMAT_NEWER when a newer version has
    written the home.
    """
    check_home(settings.home)
    route = route_of(settings, safe_name(view, "view"))
    if version is not None:
        check_not_retired(view, [version], route.retired if route else ())
    # A read that pins later must not get an older cut than one that pinned before. What is noted of other versions is
    # written behind the lock: a slow disk delays no other read.
    with ExitStack() as unlocked, _lock:
        if version is not None:
            chosen, speed = _current(settings, view, version)
            behind = None
        else:
            chosen, speed, behind = _routed(settings, view, route, reader, unlocked)
        batch = None
        if PARTITION_DATE in speed.schema.names:
            with read_errors(f"{view} v{chosen}", chosen):
                batch = _batch(VersionRef(settings, view, chosen).batch_table, speed, prefer)
    half = batch.half if batch else None
    halves = _halves(speed, half, prefer)
    if partitions is not None and PARTITION_DATE not in speed.schema.names:
        raise BadInput(
            "PARTITION_NEEDED",
            f"{view} v{chosen} has no partitions",
            state="nothing was read",
            next_step="leave partitions out, and use a condition: where=...",
            field="partitions",
        )
    if partitions is not None:
        halves = {day: name for day, name in halves.items() if day in partitions}
    lost = batch.lost if batch else frozenset()
    if lost := lost if partitions is None else lost & set(partitions):
        raise _days_expired(view, chosen, sorted(lost), speed.newest.note.cut)
    number = route.number if route else 0
    if behind is not None:
        record_behind(
            VersionRef(settings, view, chosen), reader_name(settings, reader), str(speed.newest.note.cut), route=number
        )
    watched = number if version is None or (route and version in route.shares) else None
    return ReadPlan(chosen, speed, half, halves, behind, watched, batch.earlier if batch else {})


def _current(settings: Settings, view: str, version: int | None) -> tuple[int, Snapshot]:
    """Return this version (None: the oldest that covers anything) at its newest cut, never older than one seen."""
    chosen, speed = newest_speed(settings, view, version, first=True)
    seen = _seen.get(speed.uri)
    if seen is not None and not speed.newest.note.cut.covers(seen):
        forget(speed.uri)
        chosen, speed = newest_speed(settings, view, chosen)
        if not speed.newest.note.cut.covers(seen):
            raise _went_back(view, chosen, seen, speed.newest.note.cut)
    _seen[speed.uri] = speed.newest.note.cut
    return chosen, speed


def _routed(
    settings: Settings, view: str, route: Route | None, reader: str | None, unlocked: ExitStack
) -> tuple[int, Snapshot, Cut | None]:
    """Return the version that the route gives this reader, its speed half, and the cut that the reader has seen if that
    is newer."""
    key = _reader_key(settings, view, reader)
    last = _readers.get(key)
    version, kept = route.version_for(key[1]) if route else None, None
    if route is not None and version is not None and last is not None and last.version != version:
        kept = _kept_snapshot(settings, route, key, version, last, unlocked)
    chosen, speed = (last.version, kept) if last and kept else _current(settings, view, version)
    cut = speed.newest.note.cut
    behind = last.seen if last is not None and kept is None and not covers(cut, last.seen) else None
    if kept is not None:
        _readers.move_to_end(key)
    else:
        seen = cut.joined(last.seen) if last is not None else cut
        _remember(key, _LastRead(chosen, speed.uri, speed.table_id, speed.version, seen))
    return chosen, speed, behind


def _kept_snapshot(
    settings: Settings, route: Route, key: tuple[str, str], version: int, last: _LastRead, unlocked: ExitStack
) -> Snapshot | None:
    """Return the reader's last snapshot if the reader has to keep it; None if it may move to ``version``.

    It may move when ``version`` covers what the reader has seen; in a rollback, BACK_SECONDS after the route was set;
    and when the last snapshot no longer exists.
    """
    try:
        with read_errors(f"{route.view} v{version}"):
            cut = newest_speed(settings, route.view, version)[1].newest.note.cut
    except AnabranchError as error:
        return _kept_instead(VersionRef(settings, route.view, version), route, key[1], error, last, unlocked)
    if covers(cut, last.seen):
        return None
    if route.sends_back(last.version, version) and _age(settings, route) >= BACK_SECONDS:
        return None
    return _last_snapshot(last)


def _kept_instead(
    ref: VersionRef, route: Route, reader: str, error: AnabranchError, last: _LastRead, unlocked: ExitStack
) -> Snapshot | None:
    """Return the reader's last snapshot while ``ref`` can't be read. That counts against ``ref``: this read doesn't
    fail because of it, but a new reader's would. None if there is no last snapshot: then the read itself fails."""
    gone = False
    try:
        kept = _last_snapshot(last)
        gone = kept is None
        return kept
    finally:
        if not gone and counts(error):
            unlocked.callback(record_failed, ref, reader, error.code, engine="read", route=route.number)


def _last_snapshot(last: _LastRead) -> Snapshot | None:
    with read_errors(f"{last.uri} at version {last.table_version}", last.version):
        return snapshot_at(last.uri, last.table_id, last.table_version)


def _batch(uri: str, speed: Snapshot, prefer: Prefer) -> BatchAtCut | None:
    """Return the batch half; by default as of the cut of the speed half."""
    newest = snapshot(uri)
    if newest is None:
        return None
    return batch_at(newest, speed) if prefer == "default" else BatchAtCut(newest)


def _age(settings: Settings, route: Route) -> float:
    """Return the seconds since a route was set. If it was set on another machine, or before a restart, the wall clock
    decides, with the time that this process has known the route as the minimum."""
    key, now = (routes_table(settings, route.view), route.number), time.monotonic()
    first = _first_sight.setdefault(key, now)
    if len(_first_sight) > _MAX_ROUTES:
        _first_sight.popitem(last=False)
    known = route.moment.age() if route.moment else None
    return known if known is not None else max(now - first, (datetime.now(UTC) - route.changed_at).total_seconds())


def _remember(key: tuple[str, str], last: _LastRead) -> None:
    _readers[key] = last
    _readers.move_to_end(key)
    if len(_readers) > _MAX_READERS:
        _readers.popitem(last=False)


def _reader_key(settings: Settings, view: str, reader: str | None) -> tuple[str, str]:
    """The view's routes table (unique across lakes), and the reader's name."""
    return routes_table(settings, view), reader_name(settings, reader)


def reader_name(settings: Settings, reader: str | None) -> str:
    """Return the reader's name: the given one, else the setting ``reader``, else user@host."""
    return reader or settings.reader or user_at_host()


def _halves(speed: Snapshot, batch: Snapshot | None, prefer: Prefer) -> dict[date | None, HalfName]:
    published = batch.published if batch else {}
    return choose(speed.changed, published, speed.newest.note.cut, prefer)


def _went_back(view: str, version: int, seen: Cut, now: Cut) -> BrokenState:
    return BrokenState(
        "CUT_WENT_BACK",
        f"{view} v{version} covers {now}, but {seen} has been read already",
        state="nothing was read",
        next_step="the speed table was restored from an older state: replay the view",
        seen=str(seen),
        now=str(now),
    )


def _days_expired(view: str, version: int, days: list[date], cut: Cut) -> BrokenState:
    more = f" and {len(days) - 1} other days" if len(days) > 1 else ""
    return BrokenState(
        "DAYS_EXPIRED",
        f"{view} v{version} covers {cut}, but {days[0]}{more} can only be read at newer cuts",
        state="nothing was read: they were published again beyond that cut, and their files of before are deleted",
        next_step="anabranch status shows why the view's stream has stopped; until it has caught up, leave these days "
        'out (partitions=...) or read with prefer="complete", which includes events after the cut',
        cut=str(cut),
        partitions=[day.isoformat() for day in days],
        **{READ_VERSION: version},
    )
