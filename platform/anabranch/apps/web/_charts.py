"""Computes the coordinates of the charts' lines, squares and labels. The templates draw them as SVG."""

from __future__ import annotations

from calendar import month_abbr
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from anabranch.apps.web._days import Day
from anabranch.serve.routes import Route

_STEP, _LABEL = 14, 28
"""Pixels from one day of the calendar to the next, and the width of a month's name."""
LEFT, TOP = 30, 18
WIDTH, HEIGHT = 760, 200
"""Size of a chart over time, without its labels."""


@dataclass(frozen=True, slots=True)
class Square:
    """A day of the calendar; ``known`` is None if nothing is known about it."""

    day: date
    x: int
    y: int
    known: Day | None


@dataclass(frozen=True, slots=True)
class Year:
    """A calendar with a column per week, from Monday to Sunday: as many as there are known days between."""

    year: int
    squares: tuple[Square, ...]
    months: tuple[tuple[int, str], ...]

    @property
    def width(self) -> int:
        return max([*(square.x + _STEP for square in self.squares), *(x + _LABEL for x, _ in self.months)])

    @property
    def height(self) -> int:
        return TOP + 7 * _STEP


@dataclass(frozen=True, slots=True)
class Area:
    """The share of one version over time, stacked on those of newer versions: the ``d`` of an SVG path."""

    version: int
    path: str
    label_y: float | None
    """The position of its label, if it has a share at the end."""


@dataclass(frozen=True, slots=True)
class Dot:
    """An event on a time axis. ``kind`` is its CSS class."""

    x: float
    kind: str
    says: str


@dataclass(frozen=True, slots=True)
class Axis:
    """A time axis from left to right."""

    begin: datetime
    end: datetime

    @staticmethod
    def over(moments: Iterable[datetime], now: datetime) -> Axis:
        begin = min(moments, default=now)
        return Axis(begin, max(now, begin + timedelta(seconds=1)))

    def x(self, moment: datetime) -> float:
        return round(LEFT + WIDTH * ((moment - self.begin) / (self.end - self.begin)), 1)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Four times, formatted precisely enough to distinguish them."""
        span = self.end - self.begin
        form = "%Y-%m-%d" if span > timedelta(days=4) else "%m-%d %H:%M" if span > timedelta(minutes=4) else "%H:%M:%S"
        moments = [self.begin + span * n / 3 for n in range(4)]
        return [(self.x(moment), moment.strftime(form)) for moment in moments]


def year_of(year: int, days: Mapping[date | None, Day]) -> Year:
    """Returns the weeks of one year from its first to its last known day, with the unknown days between."""
    known = [day for day in days if day is not None and day.year == year]
    first, last = min(known, default=date(year, 1, 1)), max(known, default=date(year, 12, 31))
    begin = first - timedelta(days=first.weekday())
    count = (last - begin).days + min(7 - last.weekday(), (date(year, 12, 31) - last).days + 1)
    shown = [day for n in range(count) if (day := begin + timedelta(days=n)).year == year]
    squares = [Square(day, _column(begin, day), TOP + day.weekday() * _STEP, days.get(day)) for day in shown]
    return Year(year, tuple(squares), tuple(_months(begin, shown)))


def _months(begin: date, shown: Sequence[date]) -> list[tuple[int, str]]:
    """Returns the names of months, each above its first whole week; of the first month if there is room for it."""
    firsts = [day for day in shown if day.day == 1]
    places = [(_column(begin, day) + (_STEP if day.weekday() else 0), month_abbr[day.month]) for day in firsts]
    names = [(x, name) for x, name in places if x <= _column(begin, shown[-1])]
    if not names or names[0][0] >= LEFT + _LABEL:
        names.insert(0, (LEFT, month_abbr[shown[0].month]))
    return names


def _column(begin: date, day: date) -> int:
    return LEFT + (day - begin).days // 7 * _STEP


def shares(history: Sequence[Route], axis: Axis) -> list[Area]:
    """Returns the stacked shares of all versions, the newest at the bottom, so that its growth is visible. ``history``
    and the areas are oldest first."""
    versions = sorted({version for route in history for version, share in route.shares.items() if share})
    return [_area(version, versions, history, axis) for version in versions]


def _area(version: int, versions: Sequence[int], history: Sequence[Route], axis: Axis) -> Area:
    below = [each for each in versions if each > version]
    bottoms = [sum(route.shares.get(each, 0) for each in below) for route in history]
    tops = [bottom + route.shares.get(version, 0) for bottom, route in zip(bottoms, history, strict=True)]
    xs = [axis.x(route.changed_at) for route in history]
    ends = [*xs[1:], axis.x(axis.end)]
    there = [(x, y(top)) for start, end, top in zip(xs, ends, tops, strict=True) for x in (start, end)]
    back = [(x, y(bottom)) for start, end, bottom in zip(xs, ends, bottoms, strict=True) for x in (start, end)]
    points = " L".join(f"{px:g} {py:g}" for px, py in [*there, *reversed(back)])
    middle = y((tops[-1] + bottoms[-1]) / 2) if tops[-1] > bottoms[-1] else None
    return Area(version, f"M{points}Z", middle)


def y(share: float) -> float:
    """The y coordinate of a percentage."""
    return round(TOP + HEIGHT * (1 - share / 100), 1)
