"""What a person may ask of a migration or a retirement, as values from a form, a REST call or a shell.

Everything is checked here again, whatever form it came through. Predicates and columns are only looked at here for
their type: what they may say, the check of the migration decides against the view itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from anabranch.change.gates import Promise
from anabranch.errors import BadInput
from anabranch.settings import SAFE_NAME
from anabranch.views.definition import duration

_MOST = 20
"""Checks, columns or steps; more is a typing error."""
_LONG = 2_000
"""Characters of a text."""


@dataclass(frozen=True, slots=True)
class AskedMigration:
    """A checked wish. ``old`` and ``new`` are None where nobody named them: the version that all readers have, and the
    newest one."""

    view: str
    old: int | None
    new: int | None
    steps: tuple[int, ...]
    soak_seconds: float
    promise: Promise
    why: str


def asked_migration(params: Mapping[str, Any]) -> AskedMigration:
    """Read ``view``, ``from``, ``to``, ``steps``, ``soak``, ``changed``, ``checks``, ``behind`` and ``why``. BadInput
    names the ``field`` that is wrong."""
    behind = params.get("behind", Promise().behind)
    if not isinstance(behind, int) or isinstance(behind, bool) or behind < 0:
        raise _wrong("behind", "PARAMETER_TYPE", "a whole number from 0 on is needed", "write 30")
    return AskedMigration(
        _view(params),
        _version(params, "from"),
        _version(params, "to"),
        steps_of(_text(params, "steps", "1,5,25,50,100")),
        seconds_of(_text(params, "soak", "10 minutes"), "soak"),
        Promise(_texts(params, "changed"), _texts(params, "checks"), behind),
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
    version = _version(params, "version")
    if version is None:
        raise _wrong("version", "VERSION_UNSAFE", "is empty", "name the version to retire")
    grace = seconds_of(_text(params, "grace", "7 days"), "grace")
    return AskedRetirement(_view(params), version, grace, _why(params))


def steps_of(text: str) -> tuple[int, ...]:
    """``"1,5,25"`` as numbers, in the order given; BadInput STEPS_WRONG. Whether they grow, the migration checks."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > _MOST or not all(part.isascii() and part.isdecimal() and len(part) < 4 for part in parts):
        raise _wrong("steps", "STEPS_WRONG", f"{text[:40]!r} are no steps", "write 1,5,25,50,100")
    return tuple(int(part) for part in parts)


def seconds_of(text: str, field: str) -> float:
    """``"10 minutes"`` in seconds; BadInput DURATION_WRONG."""
    try:
        return duration(text).total_seconds()
    except ValueError:
        raise _wrong(field, "DURATION_WRONG", f"{text[:40]!r} is no duration", "write '10 minutes'") from None


def _view(params: Mapping[str, Any]) -> str:
    view = _text(params, "view")
    if not SAFE_NAME.fullmatch(view):
        raise _wrong("view", "NAME_UNSAFE", f"{view[:60]!r} is no name of a view", "use a-z, 0-9 and _")
    return view


def _why(params: Mapping[str, Any]) -> str:
    why = _text(params, "why").strip()
    if not why:
        raise _wrong("why", "REASON_MISSING", "is empty", "say why: it is kept for ever")
    return why


def _version(params: Mapping[str, Any], field: str) -> int | None:
    value = params.get(field)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise _wrong(field, "VERSION_UNSAFE", f"{str(value)[:40]!r} is no version", "versions are 1, 2, ...")
    return value


def _text(params: Mapping[str, Any], field: str, default: str = "") -> str:
    value = params.get(field)
    if value is None or value == "":
        return default
    if not isinstance(value, str) or len(value) > _LONG:
        raise _wrong(field, "PARAMETER_TYPE", f"a text of at most {_LONG:,} characters is needed", "put it in quotes")
    return value


def _texts(params: Mapping[str, Any], field: str) -> tuple[str, ...]:
    value = params.get(field) or []
    if not isinstance(value, list) or len(value) > _MOST:
        raise _wrong(field, "PARAMETER_TYPE", f"at most {_MOST} texts are needed, one a line", "write one a line")
    return tuple(text.strip() for text in (_text({field: each}, field) for each in value) if text.strip())


def _wrong(field: str, code: str, what: str, next_step: str) -> BadInput:
    return BadInput(code, f"parameter {field}: {what}", state="nothing was started", next_step=next_step, field=field)
