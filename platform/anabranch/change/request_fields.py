"""Values as people give them, in a form, a REST call or a shell: each is checked here, whatever it came through.

A value is only ever read as what its field is; anything else is refused by the field's name and goes nowhere.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import date
from typing import Any

from anabranch.core.errors import BadInput
from anabranch.core.settings import SAFE_NAME
from anabranch.lake.cut import parse_epochs

DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_AT = "[a-z][a-z0-9_]{0,62}@[0-9]{1,18}"
CUT = re.compile(f"{_AT}(,{_AT})*")
LONG = 2_000
"""The most characters of a text."""
MAX_DAYS = 3660
"""Ten years: more is a typing error."""


def wrong(field: str, code: str, what: str, next_step: str) -> BadInput:
    return BadInput(code, f"parameter {field}: {what}", state="nothing was started", next_step=next_step, field=field)


def shown(value: object) -> str:
    text = str(value)
    return repr(text if len(text) <= 60 else text[:60] + "...")


def text(params: Mapping[str, Any], field: str, default: str = "") -> str:
    """``default`` where it is not given, or empty."""
    value = _text(params, field)
    if len(value) > LONG:
        raise wrong(field, "PARAMETER_TYPE", f"{len(value):,} characters; {LONG:,} are the most", "say it shorter")
    return value or default


def view_name(params: Mapping[str, Any]) -> str:
    value = text(params, "view")
    if not SAFE_NAME.fullmatch(value):
        raise wrong("view", "NAME_UNSAFE", f"{shown(value)} is no name of a view", "use a-z, 0-9 and _")
    return value


def version(params: Mapping[str, Any], field: str) -> int | None:
    value = params.get(field)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise wrong(field, "VERSION_UNSAFE", f"{shown(value)} is no version", "versions are 1, 2, ...")
    return value


def flag(params: Mapping[str, Any], field: str) -> bool:
    value = params.get(field)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise wrong(field, "PARAMETER_TYPE", f"{shown(value)} is neither true nor false", "write it without quotes")
    return value


def number(params: Mapping[str, Any], field: str, default: float) -> float:
    value = params.get(field)
    if value is None or value == "":
        return default
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise wrong(field, "PARAMETER_TYPE", f"a number is needed, not {shown(value)}", "write it without quotes")
    return float(value)


def day(params: Mapping[str, Any], field: str) -> date | None:
    value = _text(params, field)
    if not value:
        return None
    try:
        if not DATE.fullmatch(value):
            raise ValueError("not of the form YYYY-MM-DD")
        return date.fromisoformat(value)
    except ValueError as error:
        raise wrong(field, "DATE_UNREADABLE", f"{shown(value)} is no date: {error}", "write 2013-01-31") from None


def day_range(params: Mapping[str, Any]) -> tuple[date, date] | None:
    """``from`` and ``to``, both included; one day without ``to``; None without both."""
    first, last = day(params, "from"), day(params, "to")
    if first is None:
        if last is not None:
            raise wrong("from", "RANGE_OPEN", "to is given without from", "give both, or only from for a single day")
        return None
    last = last or first
    if last < first:
        raise wrong("to", "RANGE_REVERSED", f"to {last} lies before from {first}", "swap them")
    if (last - first).days >= MAX_DAYS:
        raise wrong("to", "RANGE_TOO_LONG", f"{first} to {last} is more than {MAX_DAYS} days", "check the years")
    return first, last


def epochs(params: Mapping[str, Any], field: str, topics: Collection[str]) -> Mapping[str, int]:
    """A cut as epochs by topic; empty where it is not given."""
    value = _text(params, field)
    if not value:
        return {}
    form = f"write {','.join(f'{topic}@12' for topic in topics)}, or leave it empty"
    if not CUT.fullmatch(value):
        raise wrong(field, "CUT_UNREADABLE", f"{shown(value)} is no cut", form)
    found = parse_epochs(value)
    if not set(found) <= set(topics):
        what = f"{value} names another topic; the view reads {', '.join(topics)}"
        raise wrong(field, "CUT_OF_ANOTHER_TOPIC", what, form)
    if min(found.values()) < 1:
        raise wrong(field, "CUT_UNREADABLE", f"{value}: the first epoch is 1", form)
    return found


def _text(params: Mapping[str, Any], field: str) -> str:
    value = params.get(field)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise wrong(field, "PARAMETER_TYPE", f"a text is needed, not {type(value).__name__}", "put it in quotes")
    return value
