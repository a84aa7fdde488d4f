"""The request of a replay: view, days, cut, pace and source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Literal

from anabranch.change.replay.rate_limit import Pace
from anabranch.views.model.handle import ViewHandle

Source = Literal["landing", "log"]


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """What to replay: ``days`` of ``view`` (None: the whole view), up to the epochs ``until`` by topic (a topic that
    isn't listed has no bound). ``run``: its name. ``pace``: the initial pace. ``estimated``: the seconds that its plan
    estimated. ``source``: whose bytes are read; ``log`` means the log as far back as it reaches, else landing."""

    view: ViewHandle
    run: str
    days: tuple[date, ...] | None = None
    until: Mapping[str, int] = field(default_factory=dict, hash=False)
    pace: Pace = field(default_factory=Pace)
    estimated: float | None = None
    source: Source = "landing"
