"""Parse and validate single parameters that people give in a form, a REST call or the CLI.

Each value is parsed by its field's type; any other value is refused with the field's name and used nowhere.
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
"""The maximum number of characters of a text."""
MAX_DAYS = 3660
"""Ten years: more is taken for a typing error."""


def parameter_error(field: str, code: str, what: str, next_step: str) -> BadInput:
    return BadInput(code, f"parameter {field}: {what}", state="nothing was started", next_step=next_step, field=field)


def short_repr(value: object) -> str:
    text = str(value)
    return repr(text if len(text) <= 60 else text[:60] + "...")


def text(params: Mapping[str, Any], field: str, default: str = "") -> str:
    """Return the text, or ``default`` if it is missing or empty."""
    value = _text(params, field)
    if len(value) > LONG:
        what = f"{len(value):,} characters; at most {LONG:,} are allowed"
        raise parameter_error(field, "PARAMETER_TYPE", what, "shorten it")
    return value or default


def view_name(params: Mapping[str, Any]) -> str:
    value = text(params, "view")
    if not SAFE_NAME.fullmatch(value):
        raise parameter_error("view", "NAME_UNSAFE", f"{short_repr(value)} is not a view's name", "use a-z, 0-9 and _")
    return value


def version(params: Mapping[str, Any], field: str) -> int | None:
    value = params.get(field)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise parameter_error(
            field, "VERSION_UNSAFE", f"{short_repr(value)} is not a version", "versions are 1, 2, ..."
        )
    return value


def flag(params: Mapping[str, Any], field: str) -> bool:
    value = params.get(field)
    if value is None:
        return False
    if not isinstance(value, bool):
        what = f"{short_repr(value)} is neither true nor false"
        raise parameter_error(field, "PARAMETER_TYPE", what, "write it without quotes")
    return value


def number(params: Mapping[str, Any], field: str, default: float) -> float:
    value = params.get(field)
    if value is None or value == "":
        return default
    if not isinstance(value, int | float) or isinstance(value, bool):
        what = f"a number is required, not {short_repr(value)}"
        raise parameter_error(field, "PARAMETER_TYPE", what, "write it without quotes")
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
        what = f"{short_repr(value)} is not a date: {error}"
        raise parameter_error(field, "DATE_UNREADABLE", what, "write 2013-01-31") from None


def day_range(params: Mapping[str, Any]) -> tuple[date, date] | None:
    """Parse ``from`` and ``to``, both inclusive. Without ``to`` the range is one day; without both, returns None."""
    first, last = day(params, "from"), day(params, "to")
    if first is None:
        if last is not None:
            next_step = "give both, or only from for a single day"
            raise parameter_error("from", "RANGE_OPEN", "to is given without from", next_step)
        return None
    last = last or first
    if last < first:
        raise parameter_error("to", "RANGE_REVERSED", f"to {last} is before from {first}", "swap them")
    if (last - first).days >= MAX_DAYS:
        what = f"{first} to {last} is more than {MAX_DAYS} days"
        raise parameter_error("to", "RANGE_TOO_LONG", what, "check the years")
    return first, last


def epochs(params: Mapping[str, Any], field: str, topics: Collection[str]) -> Mapping[str, int]:
    """Parse a cut as epochs by topic. Returns an empty mapping if it is not given."""
    value = _text(params, field)
    if not value:
        return {}
    form = f"write {','.join(f'{topic}@12' for topic in topics)}, or leave it empty"
    if not CUT.fullmatch(value):
        raise parameter_error(field, "CUT_UNREADABLE", f"{short_repr(value)} is not a cut", form)
    by_topic = parse_epochs(value)
    if not set(by_topic) <= set(topics):
        what = f"{value} names another topic; the view reads {', '.join(topics)}"
        raise parameter_error(field, "CUT_OF_ANOTHER_TOPIC", what, form)
    if min(by_topic.values()) < 1:
        raise parameter_error(field, "CUT_UNREADABLE", f"{value}: the first epoch is 1", form)
    return by_topic


def _text(params: Mapping[str, Any], field: str) -> str:
    value = params.get(field)
    if value is None:
        return ""
    if not isinstance(value, str):
        what = f"a text is required, not {type(value).__name__}"
        raise parameter_error(field, "PARAMETER_TYPE", what, "put it in quotes")
    return value
