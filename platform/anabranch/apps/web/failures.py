"""What went wrong, in words for a page: a table that is broken takes its own place on it, and no other."""

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
    """As an ``AnabranchError`` says it. ``status`` is the code of HTTP that fits."""

    what: str
    code: str = ""
    state: str = ""
    next_step: str = ""
    status: int = 503


def failure_of(error: Exception) -> Failure:
    """Any error in words; of one that nobody raised on purpose, its first line."""
    if not isinstance(error, AnabranchError):
        return Failure(
            f"{type(error).__name__}: {root_cause(error)[:_LONG]}", next_step="the API server's log says more"
        )
    status = 400 if isinstance(error, BadInput) else 409 if isinstance(error, Conflict) else 503
    return Failure(error.what, error.code, error.state, error.next_step, status)


def attempt(what: str, make: Callable[[], T]) -> T | Failure:
    """What ``make`` returns, or why it doesn't. A look at files that others write may end in any error."""
    try:
        return make()
    except AnabranchError as error:
        return failure_of(error)
    except Exception as error:
        log.warning("%s can't be shown", what, exc_info=error)
        return failure_of(error)
