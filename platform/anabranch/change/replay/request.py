"""What somebody wants replayed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Literal

from anabranch.change.replay.rate_limit import Pace
from anabranch.contracts import Sources
from anabranch.views.definition import View

Source = Literal["landing", "log"]


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """What is replayed: ``days`` of ``view`` (None: all of it) up to the epochs ``until`` (by topic; the newest of one
    that is left out), by the name ``run``. ``pace`` holds until somebody wishes for another one;
    ``estimated``: how many seconds its plan has said. ``source``: whose bytes are read; the log's where it still
    reaches."""

    view: View
    topics: Sources
    run: str
    days: tuple[date, ...] | None = None
    until: Mapping[str, int] = field(default_factory=dict, hash=False)
    pace: Pace = field(default_factory=Pace)
    estimated: float | None = None
    source: Source = "landing"
