"""Turns errors into text for a page, so that a broken table affects only its own part of the page."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from anabranch.core.errors import AnabranchError, BadInput, Conflict, root_cause

log = logging.getLogger(__name__)
T = TypeVar("T")
_LONG = 500


@dataclass(frozen=True, slots=True)
class Failure:
    """The fields of an ``AnabranchError``, and the matching HTTP status."""

    what: str
    code: str = ""
    state: str = ""
    next_step: str = ""
    status: int = 503


def failure_of(error: Exception) -> Failure:
    """Converts any error. Of an unexpected one, only the first line is shown."""
    if not isinstance(error, AnabranchError):
        return Failure(f"{type(error).__name__}: {root_cause(error)[:_LONG]}", next_step="see the API server's log")
    status = 400 if isinstance(error, BadInput) else 409 if isinstance(error, Conflict) else 503
    return Failure(error.what, error.code, error.state, error.next_step, status)


def attempt(what: str, make: Callable[[], T]) -> T | Failure:
    """Returns the result of ``make``, or the failure. Reading files that others write may raise any error."""
    try:
        return make()
    except AnabranchError as error:
        return failure_of(error)
    except Exception as error:
        log.warning("%s can't be shown", what, exc_info=error)
        return failure_of(error)
