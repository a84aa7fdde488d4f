"""What a person may ask of a replay, as values from a form, a REST call or a shell."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, cast, get_args

from anabranch.change.replay.rate_limit import Pace
from anabranch.change.replay.request import Source
from anabranch.change.request_fields import day_range, epochs, number, shown, text, version, view_name, wrong


@dataclass(frozen=True, slots=True)
class AskedReplay:
    """A checked wish: ``days`` (first and last), or the days that events of the epochs behind ``since`` up to ``until``
    touch, or, with neither, all of the view. Epochs are by topic; a topic that is left out isn't bounded."""

    days: tuple[date, date] | None
    since: Mapping[str, int] = field(hash=False)
    until: Mapping[str, int] = field(hash=False)
    pace: Pace
    source: Source = "landing"

    @property
    def whole(self) -> bool:
        return self.days is None and not self.since and not self.until


def asked_view(params: Mapping[str, Any]) -> tuple[str, int | None]:
    """``view`` and ``version`` (None: the newest). BadInput names the ``field`` that is wrong."""
    return view_name(params), version(params, "version")


def asked_replay(params: Mapping[str, Any], topics: Collection[str]) -> AskedReplay:
    """Read ``from``, ``to``, ``since``, ``until``, ``share`` (percent), ``speed`` and ``source``. BadInput with
    ``field``."""
    days, since, until = day_range(params), epochs(params, "since", topics), epochs(params, "until", topics)
    if days and since:
        raise wrong("since", "RANGE_TWICE", "days are given, too", "give days, or two cuts")
    for topic, epoch in since.items():
        if until.get(topic, epoch + 1) <= epoch:
            what = f"{topic}@{until[topic]} doesn't lie behind since, {topic}@{epoch}"
            raise wrong("until", "RANGE_REVERSED", what, "swap them")
    source = text(params, "source", "landing")
    if source not in get_args(Source):
        raise wrong("source", "SOURCE_UNKNOWN", f"{shown(source)} is none", "write landing or log")
    return AskedReplay(days, since, until, pace_of(params, Pace()), cast("Source", source))


def pace_of(params: Mapping[str, Any], known: Pace) -> Pace:
    """``share`` in percent of all cores and ``speed``; what is left out stays as it is known."""
    share = number(params, "share", known.share * 100)
    return Pace(share / 100, number(params, "speed", known.speed))
