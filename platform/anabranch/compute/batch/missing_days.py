"""Find the late and loaded events that neither half of a view holds, and the days whose rows lack them.

The speed half holds on-time events only; the batch half of a day holds all events up to the cut of its publication. So
a late event, or one that was loaded from a file, is in neither half when a day that depends on it was never published,
or was published before the event landed. As with dirty days no marks are kept: this is derived from landing's rows and
the latest batch commit.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from threading import Lock

from deltalake import DeltaTable

from anabranch.compute.batch.publish import Published, published_in
from anabranch.compute.batch.rebuild import cut_at
from anabranch.core.errors import BrokenState, TryAgain
from anabranch.core.settings import Settings
from anabranch.ingest.landing.table.event_counts import days_of_files
from anabranch.ingest.landing.table.late_events import LateEvents, Lateness, lateness_since
from anabranch.lake import Commit, latest_verified_commit, open_table
from anabranch.lake.cut import Cut
from anabranch.lake.layout import VersionRef, landing_table
from anabranch.views import View
from anabranch.views.model.handle import ViewHandle
from anabranch.views.selection.partitions import reach, touched_partitions

Since = Callable[[date], int | None]


@dataclass(frozen=True, slots=True)
class MissingDay:
    """A day that was never published (``at`` is None), or whose batch half, published at the cut ``at``, lacks ``late``
    events, late or loaded ones; ``loaded`` of them are from files. For a day that was never published ``late`` may be
    0: then the speed half has all of its events."""

    day: date
    at: Cut | None
    late: int
    loaded: int = 0


@dataclass(frozen=True, slots=True)
class Missing:
    """``late``: how many late or loaded events are missing in at least one day that depends on them, each counted once;
    ``loaded``: those of them from files. ``days``: these days, and all other days that have events and were never
    published, sorted."""

    late: int = 0
    days: tuple[MissingDay, ...] = field(default=())
    loaded: int = 0

    @property
    def never_published(self) -> Mapping[date, int]:
        """The days that were never published and have late or loaded events, with their number."""
        return {missing.day: missing.late for missing in self.days if missing.at is None and missing.late}

    def __str__(self) -> str:
        return f"{late_events(self.late, self.loaded)} in no half"


def late_events(count: int, loaded: int = 0) -> str:
    """Text for messages: ``no late event is``, ``1 late event is``, ``12 late events are``; with ``loaded`` ones among
    them ``12 events (5 late, 7 loaded) are``."""
    if not loaded:
        return f"{count or 'no'} late event is" if count < 2 else f"{count:,} late events are"
    parts = f"({count - loaded:,} late, {loaded:,} loaded)"
    return f"1 event {parts} is" if count == 1 else f"{count:,} events {parts} are"


_cache: OrderedDict[tuple[object, ...], Missing] = OrderedDict()
_lock = Lock()
_CACHE_SIZE = 64


def missing(settings: Settings, view: View, cut: Cut) -> Missing:
    """The late and loaded events up to ``cut`` that neither half of ``view`` holds; empty for a kappa view, whose
    stream has them.

    Works without Spark. It opens only files with late events of days that were never published, or were published
    before the file was written. The result is cached in this process until landing or the batch table has a new
    version.
    """
    batch = None if view.kappa else latest_verified_commit(VersionRef(settings, view.name, view.version).batch_table)
    return missing_at(settings, view, cut, batch)


def missing_at(settings: Settings, view: View, cut: Cut, batch: Commit | None) -> Missing:
    """As ``missing``, for the days that this commit of the batch table lists as published (None: none)."""
    if view.kappa:
        return Missing()
    landing = {topic: open_table(landing_table(settings, topic)) for topic in sorted(cut.positions)}
    gone = sorted(topic for topic, table in landing.items() if table is None and cut.epoch(topic))
    if gone:
        raise BrokenState(
            "LANDING_GONE",
            f"the landing table of {gone[0]} doesn't exist, but {view.name} v{view.version} covers {cut}",
            state="the late events that neither half holds can't be determined",
            next_step="restore landing from a copy; then run anabranch doctor",
        )
    tables = {topic: table for topic, table in landing.items() if table is not None}
    versions = tuple((table.metadata().id, table.version()) for table in tables.values())
    published = published_in(batch.note) if batch is not None else {}
    key = (str(settings.lake), view, str(cut), versions, frozenset(published.items()))
    with _lock:
        if key in _cache:
            _cache.move_to_end(key)
            return _cache[key]
    found = _Search(view, cut, published, tables).found()
    with _lock:
        _cache[key] = found
        while len(_cache) > _CACHE_SIZE:
            _cache.popitem(last=False)
    return found


def missing_now(view: ViewHandle) -> Missing:
    """As ``missing``, at the newest cut; empty until each of the view's topics has landed something."""
    try:
        cut = cut_at(view.settings, view.topics)
    except TryAgain:
        return Missing()
    return missing(view.settings, view.definition, cut)


@dataclass
class _Search:
    """One search. ``published``: the view's published days; ``tables``: the landing tables by topic."""

    view: View
    cut: Cut
    published: Mapping[date, Published]
    tables: Mapping[str, DeltaTable]

    def found(self) -> Missing:
        late, loaded, missing = 0, 0, dict.fromkeys(self.candidates - self.published.keys(), (0, 0))
        for topic, days_of, groups in self._groups():
            for group in groups:
                days = [day for day in days_of(group.day) if self._published_epoch(topic, day) < group.epoch]
                late += group.events if days else 0
                loaded += group.loaded if days else 0
                for day in days:
                    known = missing.get(day, (0, 0))
                    missing[day] = known[0] + group.events, known[1] + group.loaded
        cuts = {day: published.cut for day, published in self.published.items()}
        return Missing(late, tuple(MissingDay(day, cuts.get(day), *missing[day]) for day in sorted(missing)), loaded)

    def _groups(self) -> Iterable[tuple[str, Callable[[date], list[date]], Sequence[LateEvents]]]:
        """By topic: late and loaded events that affect the days within reach, and those of ``tables``, which affect all
        later days."""
        for topic in self.tables:
            yield topic, self._candidates_in_reach, self._events[topic].late
            if self.view.tables:
                since = self._oldest_epoch(topic, self._later_candidates)
                yield topic, self._later_candidates, self._read(topic, self.view.tables, since).late

    @cached_property
    def candidates(self) -> set[date]:
        """The days that can have rows: those that events affect, from the first day with events to the last one."""
        days = set[date]().union(*(lateness.days for lateness in self._events.values()))
        bounds = days | self.published.keys()
        inside = (day for day in touched_partitions(self.view, days) if min(bounds) <= day <= max(bounds))
        return {*inside, *self.published}

    @cached_property
    def _events(self) -> Mapping[str, Lateness]:
        """By topic, the late and loaded events that aren't of ``tables``: all of them for days that were never
        published, those since the publication for other days."""
        types = [name for name in self.view.events if name not in self.view.tables]
        return {topic: self._read(topic, types, self._oldest_epoch(topic, self._in_reach)) for topic in self.tables}

    def _read(self, topic: str, types: Iterable[str], since: Since) -> Lateness:
        return lateness_since(self.tables[topic], list(types), since, self.cut.epoch(topic))

    @cached_property
    def _span(self) -> tuple[date, date] | None:
        days = {day for table in self.tables.values() for day in days_of_files(table)} | self.published.keys()
        return (min(days), max(days)) if days else None

    def _in_reach(self, day: date) -> list[date]:
        """The days that can depend on events of ``day``. Used before it is known which of them have events."""
        first, last = self._span or (day, day)
        return [partition for partition in touched_partitions(self.view, [day]) if first <= partition <= last]

    def _candidates_in_reach(self, day: date) -> list[date]:
        return [partition for partition in touched_partitions(self.view, [day]) if partition in self.candidates]

    def _later_candidates(self, day: date) -> list[date]:
        first = day.toordinal() - reach(self.view)[1]
        return [partition for partition in self.candidates if partition.toordinal() >= first]

    def _oldest_epoch(self, topic: str, days_of: Callable[[date], list[date]]) -> Since:
        return lambda day: min((self._published_epoch(topic, partition) for partition in days_of(day)), default=None)

    def _published_epoch(self, topic: str, day: date) -> int:
        """The epoch up to which the day's batch half holds all events; 0 if the day was never published."""
        published = self.published.get(day)
        return published.cut.epoch(topic) if published else 0
