"""What a person may ask of a reprocess: a range of days, or those that are missing, and a cut."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from anabranch.change.request_fields import day_range, epochs, flag, wrong
from anabranch.compute.batch.manifest import days


@dataclass(frozen=True, slots=True)
class ReprocessRequest:
    """A checked wish. ``partitions`` are days, in order; ``epochs`` are those of the cut, by topic, the newest landed
    of one that is left out. ``missing``: instead of days that are named, those of
    ``compute.batch.missing_days``, which the plan finds."""

    partitions: tuple[date, ...]
    epochs: Mapping[str, int] = field(hash=False)
    explicit: bool
    """Whether a person named the days; a scheduled run takes its own day."""
    missing: bool = False


def asked(params: Mapping[str, Any], topics: Collection[str], own_day: date) -> ReprocessRequest:
    """Read ``from``, ``to``, ``cut`` and ``missing`` of ``params``; empty ones and None mean "not given".

    Without ``from`` it is ``own_day``; without ``to`` one day. BadInput names the ``field`` that is wrong.
    """
    named = day_range(params)
    if flag(params, "missing"):
        if named is not None:
            what = "days are given, too, by from and to"
            raise wrong("missing", "RANGE_TWICE", what, "give days, or ask for those that are missing")
        return ReprocessRequest((), epochs(params, "cut", topics), explicit=False, missing=True)
    first, last = named or (own_day, own_day)
    return ReprocessRequest(tuple(days(first, last)), epochs(params, "cut", topics), explicit=named is not None)
