"""Clocks: points in time that processes of one machine can compare, and detection of a wall clock that is set.

If the wall clock goes backwards, timed waits hang: Spark's triggers wait, without any message, until the wall clock
reaches their next time. Set back by a day, a stream does nothing for a day; Kafka's clients have such waits too.
Processes detect this and restart.

If it is set ahead, everything that is kept for days is old at once: files of readings in use, versions with readers.
Only the wall clock goes on over restarts, so the platform's start and each maintenance write down what it says, next to
a clock that can't be set. If it has gained on that one by the next look, ages are measured without the difference, for
as long as anything older may be kept: each such jump counts until the other clock has gone on by a month. So a virtual
machine that is paused each night, and gains the nights, keeps things for longer by the nights of a month of running.
A clock that is set back takes jumps away, also over a reboot if it says less than before. Not seen: a jump ahead before
the first look of a boot, and one of another machine.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final
from uuid import uuid4

from anabranch.core.control_file import ControlFile
from anabranch.core.errors import BrokenState
from anabranch.core.settings import Settings

log = logging.getLogger(__name__)
TOLERATED_SECONDS = 5.0
"""Seconds that the clock may be set back without a restart: no wait becomes longer than that."""
KEPT_SECONDS: Final = 30 * 86_400.0
"""How long a jump counts: what it made older by then is truly as old as the longest retention."""
JUMP_SECONDS: Final = 60.0
"""A clock that is corrected by less hasn't jumped."""


@dataclass
class WallClock:
    """Measures by how many seconds the wall clock was set back, compared with the monotonic clock, since creation."""

    wall: Callable[[], float] = time.time
    steady: Callable[[], float] = time.monotonic
    _ahead: float = field(init=False)

    def __post_init__(self) -> None:
        self._ahead = self.wall() - self.steady()

    def set_back(self) -> float:
        """Seconds set back, or 0.0 up to TOLERATED_SECONDS. A clock that was set ahead may return to where it was."""
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


@dataclass(frozen=True, slots=True)
class Jump:
    """By how many ``seconds`` the wall clock was set ahead. ``since``: what it said when that was seen, moved by each
    later jump, so that the difference to now is the time that has passed."""

    seconds: float
    since: float


@dataclass(frozen=True, slots=True)
class ClockReading:
    """What the ``wall`` clock (seconds since 1970) and the ``steady`` one of a machine's ``boot`` said at once.
    ``jumps``: how the first was set ahead until then, as far as that still counts, the oldest first."""

    boot: str
    steady: float
    wall: float
    jumps: tuple[Jump, ...] = ()

    @property
    def ahead(self) -> float:
        """By how many seconds the wall clock was set ahead."""
        return sum(jump.seconds for jump in self.jumps)


READING: Final = ControlFile("reading of the clock", ClockReading)


def read_clock(settings: Settings) -> ClockReading:
    """What the clock says now, and by how much it was set ahead. Raises BrokenState CLOCK_UNREADABLE if an earlier
    reading may say so and can't be read. One that is torn (a power cut: a new boot) says nothing any more."""
    path, known = settings.home / "maintenance" / "clock.json", None
    try:
        known = READING.read(path)
    except ValueError as error:
        log.warning("%s is torn, and is written anew: %s", path, error)
    except OSError as error:
        raise BrokenState(
            "CLOCK_UNREADABLE",
            f"{path} can't be read, so it isn't known whether the clock was set ahead: {error}",
            state="nothing was deleted or retired",
            next_step="make the file readable; or delete it if the clock is right",
        ) from error
    boot, wall, steady = Moment.now().boot, time.time(), _steady()
    if known is None:
        return ClockReading(boot, steady, wall)
    gained = wall - known.wall
    # Over a reboot only this is known: a clock that says less was set back, by at least that.
    step = gained - (steady - known.steady) if known.boot == boot else min(0.0, gained)
    jumps = _stepped(known.jumps, step, wall) if abs(step) > JUMP_SECONDS else known.jumps
    counting = [Jump(jump.seconds, min(jump.since, wall)) for jump in jumps if wall - jump.since < KEPT_SECONDS]
    return ClockReading(boot, steady, wall, tuple(counting))


def _stepped(jumps: Sequence[Jump], step: float, wall: float) -> list[Jump]:
    """The jumps after another ``step`` of the clock, which makes none of them older. A step back takes the newest ones
    away: what was written before an older one still looks older by that."""
    found, back = list[Jump](), max(0.0, -step)
    for jump in reversed(jumps):
        if jump.seconds - back > JUMP_SECONDS:
            found.insert(0, Jump(jump.seconds - back, jump.since + step))
        back = max(0.0, back - jump.seconds)
    return [*found, Jump(step, wall)] if step > 0 else found


def note_clock(settings: Settings) -> ClockReading:
    """The same, and write it down for the next look. A disk that is full keeps nobody from deleting what is old."""
    found = read_clock(settings)
    with suppress(OSError):
        READING.write(settings.home / "maintenance" / "clock.json", found)
    return found


def unjumped(reading: ClockReading) -> float:
    """Seconds since 1970 as they would be if the clock had not been set ahead. For ages of what is older than that;
    what is younger looks younger still."""
    return reading.wall - reading.ahead


def jump_text(reading: ClockReading) -> str:
    """What was seen, for people; "" if nothing."""
    if not reading.jumps:
        return ""
    at = datetime.fromtimestamp(reading.jumps[-1].since, UTC)
    return f"the clock was set ahead by {reading.ahead:,.0f} s before {at:%Y-%m-%d %H:%M} UTC"


def _steady() -> float:
    """Seconds of a clock that can't be set, of the whole machine; while it sleeps, too, where the system has that."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
