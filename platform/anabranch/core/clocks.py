"""Clocks: points in time that processes of one machine can compare, and detection of a wall clock that is set back.

If the wall clock goes backwards, timed waits hang: Spark's triggers wait, without any message, until the wall clock
reaches their next time. Set back by a day, a stream does nothing for a day; Kafka's clients have such waits too.
Processes detect this and restart.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from uuid import uuid4

TOLERATED_SECONDS = 5.0
"""Seconds that the clock may be set back without a restart: no wait becomes longer than that."""


@dataclass
class WallClock:
    """Measures by how many seconds the wall clock was set back, compared with the monotonic clock, since creation."""

    wall: Callable[[], float] = time.time
    steady: Callable[[], float] = time.monotonic
    _ahead: float = field(init=False)

    def __post_init__(self) -> None:
        self._ahead = self.wall() - self.steady()

    def set_back(self) -> float:
        """Seconds set back, or 0.0 up to FORGIVEN. A clock that was set ahead may return to where it was."""
        now = self.wall() - self.steady()
        back = self._ahead - now
        self._ahead = max(self._ahead, now)
        return back if back > TOLERATED_SECONDS else 0.0


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in time by the machine's monotonic clock, which can't be set: ``seconds`` since the machine's ``boot``.

    All processes of a machine share that clock, so one can tell how long ago another one did something.
    """

    boot: str
    seconds: float

    @staticmethod
    def now() -> Moment:
        return Moment(_boot(), time.monotonic())

    def age(self) -> float | None:
        """Seconds since then; None if it is from another machine or from before this machine's last boot."""
        now = Moment.now()
        return max(0.0, now.seconds - self.seconds) if now.boot == self.boot else None

    def to_json(self) -> list[str | float]:
        return [self.boot, self.seconds]

    @staticmethod
    def from_json(content: Sequence[str | float] | None) -> Moment | None:
        return None if content is None else Moment(str(content[0]), float(content[1]))


@cache
def _boot() -> str:
    """The id of this machine's current boot; where the system has none, an id of this process only."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return f"process {uuid4().hex}"
