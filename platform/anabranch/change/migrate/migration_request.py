"""Validate the parameters of a migration or a retirement, from a form, a REST call or the CLI.

Predicates and columns are only checked for their type here; the migration's checks validate them against the view.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from anabranch.change.migrate.promotion_checks import Expectations
from anabranch.change.request_fields import parameter_error, short_repr, text, version, view_name
from anabranch.views.model.definition import duration

_MAX_ITEMS = 20
"""The most checks, columns or steps; more is taken for a typing error."""


@dataclass(frozen=True, slots=True)
class MigrationRequest:
    """Validated parameters of a migration. ``old`` None: the version that all readers have. ``new`` None: the newest
    version."""

    view: str
    old: int | None
    new: int | None
    steps: tuple[int, ...]
    soak_seconds: float
    promise: Expectations
    why: str


def parse_migration_request(params: Mapping[str, Any]) -> MigrationRequest:
    """Parse ``view``, ``from``, ``to``, ``steps``, ``soak``, ``changed``, ``checks``, ``behind`` and ``why``. Raises
    BadInput with the ``field`` that is wrong."""
    behind = params.get("behind", Expectations().behind)
    if not isinstance(behind, int) or isinstance(behind, bool) or behind < 0:
        raise parameter_error("behind", "PARAMETER_TYPE", "an integer of 0 or more is required", "write 30")
    return MigrationRequest(
        view_name(params),
        version(params, "from"),
        version(params, "to"),
        steps_of(text(params, "steps", "1,5,25,50,100")),
        seconds_of(text(params, "soak", "10 minutes"), "soak"),
        Expectations(_texts(params, "changed"), _texts(params, "checks"), behind),
        _why(params),
    )


@dataclass(frozen=True, slots=True)
class RetirementRequest:
    """Validated parameters to retire a version that had no readers for ``grace_seconds``."""

    view: str
    version: int
    grace_seconds: float
    why: str


def parse_retirement_request(params: Mapping[str, Any]) -> RetirementRequest:
    """Parse ``view``, ``version``, ``grace`` and ``why``. Raises BadInput with the ``field`` that is wrong."""
    number = version(params, "version")
    if number is None:
        raise parameter_error("version", "VERSION_UNSAFE", "is empty", "give the version to retire")
    grace = seconds_of(text(params, "grace", "7 days"), "grace")
    return RetirementRequest(view_name(params), number, grace, _why(params))


def steps_of(value: str) -> tuple[int, ...]:
    """Parse ``"1,5,25"``, in the order given. Raises BadInput STEPS_WRONG. The migration checks that steps increase."""
    parts = [part.strip() for part in value.split(",")]
    if len(parts) > _MAX_ITEMS or not all(part.isascii() and part.isdecimal() and len(part) < 4 for part in parts):
        raise parameter_error("steps", "STEPS_WRONG", f"{short_repr(value)} are no steps", "write 1,5,25,50,100")
    return tuple(int(part) for part in parts)


def seconds_of(value: str, field: str) -> float:
    """Parse ``"10 minutes"`` into seconds. Raises BadInput DURATION_WRONG."""
    try:
        return duration(value).total_seconds()
    except ValueError:
        what = f"{short_repr(value)} is not a duration"
        raise parameter_error(field, "DURATION_WRONG", what, "write '10 minutes'") from None


def _why(params: Mapping[str, Any]) -> str:
    why = text(params, "why").strip()
    if not why:
        raise parameter_error("why", "REASON_MISSING", "is empty", "give a reason; it is kept in the history")
    return why


def _texts(params: Mapping[str, Any], field: str) -> tuple[str, ...]:
    value = params.get(field) or []
    if not isinstance(value, list) or len(value) > _MAX_ITEMS:
        what = f"a list of at most {_MAX_ITEMS} texts is required"
        raise parameter_error(field, "PARAMETER_TYPE", what, "write one per line")
    texts = (text({field: each}, field).strip() for each in value)
    return tuple(filter(None, texts))
