"""Validate the parameters of a reprocess: a range of days, or the missing days, and a cut."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from anabranch.change.request_fields import day_range, epochs, flag, parameter_error
from anabranch.compute.batch.manifest import days


@dataclass(frozen=True, slots=True)
class ReprocessRequest:
    """Validated parameters. ``partitions``: days, in order. ``epochs``: the cut, by topic; a topic that isn't listed
    means its newest landed epoch. ``missing``: the plan takes the days of ``compute.batch.missing_days`` instead."""

    partitions: tuple[date, ...]
    epochs: Mapping[str, int] = field(hash=False)
    explicit: bool
    """Whether a person gave the days; a scheduled run takes its own day."""
    missing: bool = False


def parse_reprocess_request(params: Mapping[str, Any], topics: Collection[str], own_day: date) -> ReprocessRequest:
    """Parse ``from``, ``to``, ``cut`` and ``missing``; an empty value or None means "not given".

    Without ``from`` the day is ``own_day``; without ``to`` the range is one day. Raises BadInput with the ``field``
    that is wrong.
    """
    given = day_range(params)
    if flag(params, "missing"):
        if given is not None:
            what = "days are given, too, by from and to"
            raise parameter_error("missing", "RANGE_TWICE", what, "give either days or missing")
        return ReprocessRequest((), epochs(params, "cut", topics), explicit=False, missing=True)
    first, last = given or (own_day, own_day)
    return ReprocessRequest(tuple(days(first, last)), epochs(params, "cut", topics), explicit=given is not None)
