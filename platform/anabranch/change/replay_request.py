"""Validate the parameters of a replay, from a form, a REST call or the CLI."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, cast, get_args

from anabranch.change.replay.rate_limit import Pace
from anabranch.change.replay.request import Source
from anabranch.change.request_fields import (
    day_range,
    epochs,
    number,
    parameter_error,
    short_repr,
    text,
    version,
    view_name,
)


@dataclass(frozen=True, slots=True)
class ReplayParameters:
    """Validated parameters: ``days`` (first and last), or the days affected by events of the epochs after ``since`` up
    to ``until``, or, with neither, the whole view. Epochs are by topic; a topic that isn't listed has no bound."""

    days: tuple[date, date] | None
    since: Mapping[str, int] = field(hash=False)
    until: Mapping[str, int] = field(hash=False)
    pace: Pace
    source: Source = "landing"

    @property
    def whole(self) -> bool:
        return self.days is None and not self.since and not self.until


def parse_view(params: Mapping[str, Any]) -> tuple[str, int | None]:
    """Parse ``view`` and ``version`` (None: the newest). Raises BadInput with the ``field`` that is wrong."""
    return view_name(params), version(params, "version")


def parse_replay_parameters(params: Mapping[str, Any], topics: Collection[str]) -> ReplayParameters:
    """Parse ``from``, ``to``, ``since``, ``until``, ``share`` (percent), ``speed`` and ``source``. Raises BadInput with
    the ``field`` that is wrong."""
    days, since, until = day_range(params), epochs(params, "since", topics), epochs(params, "until", topics)
    if days and since:
        raise parameter_error("since", "RANGE_TWICE", "days are given, too", "give days, or two cuts")
    for topic, epoch in since.items():
        if until.get(topic, epoch + 1) <= epoch:
            what = f"{topic}@{until[topic]} is not after since, {topic}@{epoch}"
            raise parameter_error("until", "RANGE_REVERSED", what, "swap them")
    source = text(params, "source", "landing")
    if source not in get_args(Source):
        raise parameter_error(
            "source", "SOURCE_UNKNOWN", f"unknown source {short_repr(source)}", "write landing or log"
        )
    return ReplayParameters(days, since, until, pace_of(params, Pace()), cast("Source", source))


def pace_of(params: Mapping[str, Any], current: Pace) -> Pace:
    """Parse ``share`` (percent of all cores) and ``speed``; omitted values keep those of ``current``."""
    share = number(params, "share", current.share * 100)
    if not 1 <= share <= 100:
        what = f"{share:g} % of the cores is not valid: from 1 to 100 percent"
        raise parameter_error("share", "PACE_WRONG", what, "write 25")
    return Pace(share / 100, number(params, "speed", current.speed))
