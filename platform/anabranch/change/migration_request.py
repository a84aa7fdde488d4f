"""What a person may ask of a migration or a retirement, as values from a form, a REST call or a shell.

Predicates and columns are only looked at here for their type: what they may say, the check of the migration decides
against the view itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from anabranch.change.promotion_checks import Expectations
from anabranch.change.request_fields import shown, text, version, view_name, wrong
from anabranch.views.definition import duration

_MOST = 20
"""Checks, columns or steps; more is a typing error."""


@dataclass(frozen=True, slots=True)
class AskedMigration:
    """A checked wish. ``old`` and ``new`` are None where nobody named them: the version that all readers have, and the
    newest one."""

    view: str
    old: int | None
    new: int | None
    steps: tuple[int, ...]
    soak_seconds: float
    promise: Expectations
    why: str


def asked_migration(params: Mapping[str, Any]) -> AskedMigration:
    """Read ``view``, ``from``, ``to``, ``steps``, ``soak``, ``changed``, ``checks``, ``behind`` and ``why``. BadInput
    names the ``field`` that is wrong."""
    behind = params.get("behind", Expectations().behind)
    if not isinstance(behind, int) or isinstance(behind, bool) or behind < 0:
        raise wrong("behind", "PARAMETER_TYPE", "a whole number from 0 on is needed", "write 30")
    return AskedMigration(
        view_name(params),
        version(params, "from"),
        version(params, "to"),
        steps_of(text(params, "steps", "1,5,25,50,100")),
        seconds_of(text(params, "soak", "10 minutes"), "soak"),
        Expectations(_texts(params, "changed"), _texts(params, "checks"), behind),
        _why(params),
    )


@dataclass(frozen=True, slots=True)
class AskedRetirement:
    """A checked wish to retire a version that nobody had or named for ``grace_seconds``."""

    view: str
    version: int
    grace_seconds: float
    why: str


def asked_retirement(params: Mapping[str, Any]) -> AskedRetirement:
    """Read ``view``, ``version``, ``grace`` and ``why``. BadInput names the ``field`` that is wrong."""
    number = version(params, "version")
    if number is None:
        raise wrong("version", "VERSION_UNSAFE", "is empty", "name the version to retire")
    grace = seconds_of(text(params, "grace", "7 days"), "grace")
    return AskedRetirement(view_name(params), number, grace, _why(params))


def steps_of(value: str) -> tuple[int, ...]:
    """``"1,5,25"`` as numbers, in the order given; BadInput STEPS_WRONG. Whether they grow, the migration checks."""
    parts = [part.strip() for part in value.split(",")]
    if len(parts) > _MOST or not all(part.isascii() and part.isdecimal() and len(part) < 4 for part in parts):
        raise wrong("steps", "STEPS_WRONG", f"{shown(value)} are no steps", "write 1,5,25,50,100")
    return tuple(int(part) for part in parts)


def seconds_of(value: str, field: str) -> float:
    """``"10 minutes"`` in seconds; BadInput DURATION_WRONG."""
    try:
        return duration(value).total_seconds()
    except ValueError:
        raise wrong(field, "DURATION_WRONG", f"{shown(value)} is no duration", "write '10 minutes'") from None


def _why(params: Mapping[str, Any]) -> str:
    why = text(params, "why").strip()
    if not why:
        raise wrong("why", "REASON_MISSING", "is empty", "say why: it is kept for ever")
    return why


def _texts(params: Mapping[str, Any], field: str) -> tuple[str, ...]:
    value = params.get(field) or []
    if not isinstance(value, list) or len(value) > _MOST:
        raise wrong(field, "PARAMETER_TYPE", f"at most {_MOST} texts are needed, one a line", "write one a line")
    found = (text({field: each}, field).strip() for each in value)
    return tuple(filter(None, found))
