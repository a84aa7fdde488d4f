"""A machine's clock that is set back stops whatever waits for a time of day: who finds out starts again.

Spark's triggers wait for the wall clock to come to their next time, silently: set back by a day, a stream stands still
for a day. Clients of the log have such waits too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

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
