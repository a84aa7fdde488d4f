"""The late events that no half of a view holds, and the days that readers miss them in.

The speed half holds on-time events only, the batch half of a day all events up to the cut that it was published at. So
a late event is in no half where a day that depends on it was never published, or was published before it landed. As
with dirty days nobody marks anything: it follows from landing's rows and the newest commit of the batch table.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from threading import Lock

from anabranch.compute.batch.publish import Published, published_in
from anabranch.compute.batch.rebuild import cut_at
from anabranch.contracts import Sources
from anabranch.core.errors import BrokenState, TryAgain
from anabranch.core.settings import Settings
from anabranch.ingest.landing.event_counts import days_of_files
from anabranch.ingest.landing.late_events import LateEvents, Lateness, lateness_since
from anabranch.lake import Commit, Cut, latest_verified_commit
from anabranch.lake.commits import open_table
from anabranch.lake.layout import batch_table, landing_table
from anabranch.views.definition import View
from anabranch.views.partitions import reach, touched_partitions
from deltalake import DeltaTable

Since = Callable[[date], int | None]


@dataclass(frozen=True, slots=True)
class MissingDay:
    """A day that was never published (``at`` is None), or whose batch half, published ``at`` a cut, lacks ``late``
    events. Of a day that was never published ``late`` may be 0: then the speed half has all of its events."""

    day: date
    at: Cut | None
    late: int


@dataclass(frozen=True, slots=True)
class Missing:
    """``late``: how many late events at least one day lacks that depends on them, each once. ``days``: these days, and
    all others that have events and were never published, in order."""

    late: int = 0
    days: tuple[MissingDay, ...] = field(default=())

    @property
    def never_published(self) -> Mapping[date, int]:
        """The days that were never published and have late events, with how many."""
        return {each.day: each.late for each in self.days if each.at is None and each.late}

    def __str__(self) -> str:
        return f"{late_events(self.late)} in no half"


def late_events(count: int) -> str:
    """For people: ``no late event is``, ``1 late event is``, ``12 late events are``."""
    return f"{count or 'no'} late event is" if count < 2 else f"{count:,} late events are"


_known: OrderedDict[tuple[object, ...], Missing] = OrderedDict()
_lock = Lock()
_REMEMBERED = 64


def missing(settings: Settings, view: View, cut: Cut) -> Missing:
    """What no half of ``view`` holds of the events up to ``cut``; nothing for a kappa view, which has no late events.

    Without Spark: only files are opened that hold late events of days that were never published, or published before
    the file was written. The answer is kept in this process until landing, or the batch table, has another version.
    """
    batch = None if view.kappa else latest_verified_commit(batch_table(settings, view.name, view.version))
    return missing_beside(settings, view, cut, batch)


def missing_beside(settings: Settings, view: View, cut: Cut, batch: Commit | None) -> Missing:
    """The same, beside the batch half at this commit of its table (None: nothing was published)."""
    if view.kappa:
        return Missing()
    landing = {topic: open_table(landing_table(settings, topic)) for topic in sorted(cut.positions)}
    gone = sorted(topic for topic, table in landing.items() if table is None and cut.epoch(topic))
    if gone:
        raise BrokenState(
            "LANDING_GONE",
            f"landing of {gone[0]} isn't there, and {view.name} v{view.version} covers {cut}",
            state="which late events no half holds can't be told",
            next_step="put landing back from a copy; anabranch doctor",
        )
    tables = {topic: table for topic, table in landing.items() if table is not None}
    versions = tuple((table.metadata().id, table.version()) for table in tables.values())
    published = (batch.version, batch.note.batch) if batch is not None else None
    place = (str(settings.lake), view, str(cut), versions, published)
    with _lock:
        if place in _known:
            _known.move_to_end(place)
            return _known[place]
    found = _Search(view, cut, published_in(batch.note) if batch is not None else {}, tables).found()
    with _lock:
        _known[place] = found
        while len(_known) > _REMEMBERED:
            _known.popitem(last=False)
    return found


def missing_now(settings: Settings, view: View, topics: Sources) -> Missing:
    """The same at the newest cut; nothing before each of ``topics`` has landed something."""
    try:
        cut = cut_at(settings, topics)
    except TryAgain:
        return Missing()
    return missing(settings, view, cut)


@dataclass
class _Search:
    """One look: ``published`` of the view's days, ``tables`` of landing by topic."""

    view: View
    cut: Cut
    published: Mapping[date, Published]
    tables: Mapping[str, DeltaTable]

    def found(self) -> Missing:
        late, lacking = 0, dict.fromkeys(self.candidates - self.published.keys(), 0)
        for topic, days_of, events in self._groups():
            for each in events:
                days = [day for day in days_of(each.day) if self._at(topic, day) < each.epoch]
                late += each.events if days else 0
                for day in days:
                    lacking[day] = lacking.get(day, 0) + each.events
        cuts = {day: published.cut for day, published in self.published.items()}
        return Missing(late, tuple(MissingDay(day, cuts.get(day), lacking[day]) for day in sorted(lacking)))

    def _groups(self) -> Iterable[tuple[str, Callable[[date], list[date]], Sequence[LateEvents]]]:
        """By topic: the late events that days around them need, and those of tables, which all later days need."""
        for topic in self.tables:
            yield topic, self._around, self._events[topic].late
            if self.view.tables:
                since = self._oldest(topic, self._from_then_on)
                yield topic, self._from_then_on, self._read(topic, self.view.tables, since).late

    @cached_property
    def candidates(self) -> set[date]:
        """The days that can have rows: events make them, and none lies before the first day that has some or behind
        the last one."""
        days = set[date]().union(*(lateness.days for lateness in self._events.values()))
        bounds = days | self.published.keys()
        inside = (day for day in touched_partitions(self.view, days) if min(bounds) <= day <= max(bounds))
        return {*inside, *self.published}

    @cached_property
    def _events(self) -> Mapping[str, Lateness]:
        """By topic, those that aren't of tables: of days that were never published all, of others what came since."""
        types = [name for name in self.view.events if name not in self.view.tables]
        return {topic: self._read(topic, types, self._oldest(topic, self._near)) for topic in self.tables}

    def _read(self, topic: str, types: Iterable[str], since: Since) -> Lateness:
        return lateness_since(self.tables[topic], list(types), since, self.cut.epoch(topic))

    @cached_property
    def _span(self) -> tuple[date, date] | None:
        days = {day for table in self.tables.values() for day in days_of_files(table)} | self.published.keys()
        return (min(days), max(days)) if days else None

    def _near(self, day: date) -> list[date]:
        """The days that can depend on events of ``day``, before it is known which of them have events."""
        first, last = self._span or (day, day)
        return [each for each in touched_partitions(self.view, [day]) if first <= each <= last]

    def _around(self, day: date) -> list[date]:
        return [each for each in touched_partitions(self.view, [day]) if each in self.candidates]

    def _from_then_on(self, day: date) -> list[date]:
        first = day.toordinal() - reach(self.view)[1]
        return [each for each in self.candidates if each.toordinal() >= first]

    def _oldest(self, topic: str, days_of: Callable[[date], list[date]]) -> Since:
        return lambda day: min((self._at(topic, each) for each in days_of(day)), default=None)

    def _at(self, topic: str, day: date) -> int:
        """The epoch up to which the batch half of a day holds everything; 0 for one that was never published."""
        published = self.published.get(day)
        return published.cut.epoch(topic) if published else 0
