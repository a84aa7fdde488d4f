"""Reads the days that are asked for, and refuses those for which nothing has landed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import date

from anabranch.compute.batch.manifest import days as every_day
from anabranch.core.errors import BadInput

Days = str | date | Sequence[date] | None
"""``2013-01-01..2013-01-03``, several of these with commas between them, or dates."""


def read_days(days: Days) -> list[date] | None:
    """Sorted, each once; None for none. Raises BadInput DAY_UNREADABLE, RANGE_REVERSED."""
    if days is None or days == "":
        return None
    if isinstance(days, str):
        return sorted({day for part in days.split(",") for day in _range(part.strip())})
    return [days] if isinstance(days, date) else sorted(set(days))


def _range(text: str) -> Sequence[date]:
    try:
        bounds = [date.fromisoformat(day.strip()) for day in text.split("..")]
        first, last = bounds[0], bounds[-1]
        if len(bounds) > 2:
            raise ValueError(text)
    except ValueError:
        raise BadInput(
            "DAY_UNREADABLE",
            f"{text[:40]!r} are no days",
            state="nothing was run",
            next_step="write them like 2013-01-31 or 2013-01-01..2013-01-31",
            field="days",
        ) from None
    if last < first:
        raise BadInput(
            "RANGE_REVERSED",
            f"{text}: the last day is before the first",
            state="nothing was run",
            next_step=f"write {last}..{first}",
            field="days",
        )
    return every_day(first, last)


def check_landed(wanted: Collection[date], landed: Collection[date]) -> None:
    """Raises BadInput DAYS_EMPTY if none of the ``wanted`` days is among those with landed events."""
    if set(wanted) & set(landed):
        return
    raise BadInput(
        "DAYS_EMPTY",
        "nothing has landed for these days" if wanted else "no days are given",
        state="nothing was run",
        next_step=f"choose from {min(landed)}..{max(landed)}" if landed else "anabranch status shows what has landed",
        field="days",
    )
