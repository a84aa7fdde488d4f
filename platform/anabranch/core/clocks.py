"""Clocks: moments that processes of one machine can compare, and wall clocks that are set back.

If the wall clock goes backwards, timed waits hang: Spark's triggers wait for the wall clock to come to their next time,
silently. Set back by a day, a stream stands still for a day; clients of the log have such waits too. Processes detect
this and restart.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from uuid import uuid4

FORGIVEN = 5.0
"""Seconds that a clock may be set back by without any notice: no wait becomes longer than that."""


@dataclass
class WallClock:
    """How far the wall clock has been set back since this was made, held to the one that nobody sets (seconds)."""

    wall: Callable[[], float] = time.time
    steady: Callable[[], float] = time.monotonic
    _ahead: float = field(init=False)

    def __post_init__(self) -> None:
        self._ahead = self.wall() - self.steady()

    def set_back(self) -> float:
        """0.0 unless it is more than is FORGIVEN. A clock that was set ahead may be set back to where it was."""
        now = self.wall() - self.steady()
        back = self._ahead - now
        self._ahead = max(self._ahead, now)
        return back if back > FORGIVEN else 0.0


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment by the machine's monotonic clock, which nobody sets: ``seconds`` since its start ``boot``.

    All processes of a machine share that clock, so one can tell how long ago another one did something.
    """

    boot: str
    seconds: float

    @staticmethod
    def now() -> Moment:
        return Moment(_boot(), time.monotonic())

    def age(self) -> float | None:
        """Seconds since then; None when it is a moment of another machine, or of before its restart."""
        now = Moment.now()
        return max(0.0, now.seconds - self.seconds) if now.boot == self.boot else None

    def to_json(self) -> list[str | float]:
        return [self.boot, self.seconds]

    @staticmethod
    def from_json(content: Sequence[str | float] | None) -> Moment | None:
        return None if content is None else Moment(str(content[0]), float(content[1]))


@cache
def _boot() -> str:
    """Which start of which machine this is; a name of this process' own where the system doesn't tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return f"process {uuid4().hex}"
