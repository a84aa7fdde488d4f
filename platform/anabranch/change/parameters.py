"""What a person may ask of a reprocess: a range of days and a cut, as text from a form, a REST call or a shell.

Everything is checked here again, whatever form it came through. A value is only ever read as a date or as
``topic@epoch,...``; anything else is refused by name and goes nowhere.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from anabranch.batch.manifest import days
from anabranch.errors import BadInput
from anabranch.tables.cut import parse_epochs

DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_AT = "[a-z][a-z0-9_]{0,62}@[0-9]{1,18}"
CUT = re.compile(f"{_AT}(,{_AT})*")
MAX_DAYS = 3660
"""Ten years: more is a typing error."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A checked wish. ``partitions`` are days, in order; ``epochs`` are those of the cut, by topic, the newest landed
    of one that is left out."""

    partitions: tuple[date, ...]
    epochs: Mapping[str, int] = field(hash=False)
    explicit: bool
    """Whether a person named the days; a scheduled run takes its own day."""


def asked(params: Mapping[str, Any], topics: Collection[str], own_day: date) -> Asked:
    """Read ``from``, ``to`` and ``cut`` of ``params``; empty ones and None mean "not given".

    Without ``from`` it is ``own_day``; without ``to`` one day. BadInput names the ``field`` that is wrong.
    """
    first, last = _day(params, "from"), _day(params, "to")
    if first is None and last is not None:
        raise _wrong("from", "RANGE_OPEN", "to is given without from", "give both, or only from for a single day")
    if first is not None and last is not None and last < first:
        raise _wrong("to", "RANGE_REVERSED", f"to {last} lies before from {first}", "swap them")
    begin = first or own_day
    end = last or begin
    if (end - begin).days >= MAX_DAYS:
        raise _wrong("to", "RANGE_TOO_LONG", f"{begin} to {end} is more than {MAX_DAYS} days", "check the years")
    return Asked(tuple(days(begin, end)), _epochs(params, topics), explicit=first is not None)


def _day(params: Mapping[str, Any], field: str) -> date | None:
    value = _text(params, field)
    if value is None:
        return None
    try:
        if not DATE.fullmatch(value):
            raise ValueError("not of the form YYYY-MM-DD")
        return date.fromisoformat(value)
    except ValueError as error:
        raise _wrong(field, "DATE_UNREADABLE", f"{_shown(value)} is no date: {error}", "write 2013-01-31") from None


def _epochs(params: Mapping[str, Any], topics: Collection[str]) -> Mapping[str, int]:
    value = _text(params, "cut")
    if value is None:
        return {}
    form = f"write {','.join(f'{topic}@12' for topic in topics)}, or leave it empty for the newest"
    if not CUT.fullmatch(value):
        raise _wrong("cut", "CUT_UNREADABLE", f"{_shown(value)} is no cut", form)
    epochs = parse_epochs(value)
    if not set(epochs) <= set(topics):
        what = f"{value} names another topic; the view reads {', '.join(topics)}"
        raise _wrong("cut", "CUT_OF_ANOTHER_TOPIC", what, form)
    if min(epochs.values()) < 1:
        raise _wrong("cut", "CUT_UNREADABLE", f"{value}: the first epoch is 1", form)
    return epochs


def _text(params: Mapping[str, Any], field: str) -> str | None:
    value = params.get(field)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise _wrong(field, "PARAMETER_TYPE", f"a text is needed, not {type(value).__name__}", "put it in quotes")
    return value


def _shown(value: str) -> str:
    return repr(value if len(value) <= 60 else value[:60] + "...")


def _wrong(field: str, code: str, what: str, next_step: str) -> BadInput:
    return BadInput(code, f"parameter {field}: {what}", state="nothing was started", next_step=next_step, field=field)
