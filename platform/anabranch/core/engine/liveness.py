"""Detects streams that hang: a hanging stream raises no error, so nothing else would restart it.

A stream is busy while it runs a micro-batch or has something new to read. It makes progress when a micro-batch starts
or ends, when a step of one is done, and when the engine ends a task for it. A stream that is busy without progress for
too long hangs. A hanging JVM thread can't be stopped, so the whole process ends and its supervisor restarts it: the
interrupted micro-batch runs again from the newest commit.

A machine's clock that is set back makes waits longer, also those of a process that sees it and wants to end: it is
given as long as a stream.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from anabranch.core.errors import TryAgain

TIMES_USUAL: Final = 3.0
TIMES_FIRST: Final = 10.0
"""Until a stream has ended a micro-batch in this process its usual duration is unknown: it may build a view from years
of events, in a cold engine. Until then the limit is so many times longer. A single task may take longer still, so CPU
use of the process (at least half a core) counts as progress then."""
_REMEMBERED: Final = 20
_LOOKS: Final = 12
"""Checks within one limit."""
_LONGEST_LOOK: Final = 2.0
_NOT_ASKED: Final = object()
log = logging.getLogger(__name__)


_UNITS: Final = {"millisecond": 0.001, "second": 1.0, "minute": 60.0, "hour": 3600.0}


def seconds_of(interval: str) -> float:
    """Seconds of an interval in the settings, like ``1 second``."""
    number, unit = interval.split()
    return float(number) * _UNITS[unit.removesuffix("s")]


class Batches:
    """The micro-batches of one stream, recorded by its sink: which one is running, and how long they take (seconds, by
    the monotonic clock)."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.current: int | None = None
        self.steps = 0
        """Grows with each step that is done."""
        self._clock = clock
        self._took: deque[float] = deque(maxlen=_REMEMBERED)

    @contextmanager
    def processing(self, number: int) -> Iterator[None]:
        """Mark micro-batch ``number`` as running within the block."""
        begun = self._clock()
        self.current = number
        try:
            yield
            self._took.append(self._clock() - begun)
        finally:
            self.current = None
            self.step()

    def step(self) -> None:
        """Record progress in the running micro-batch. Called by long work outside of the engine."""
        self.steps += 1

    @property
    def usual(self) -> float | None:
        """Median duration of the last micro-batches; None before the first has ended."""
        return median(self._took) if self._took else None


@dataclass(frozen=True, slots=True)
class Stream:
    """A running stream, as the liveness check sees it.

    ``pending`` returns the stream's position if there is something new to read after it, None if not or if unknown.
    ``engine`` returns a value that changes with each task that the engine ends for it. Both run in a thread of
    their own; an exception counts as None. ``rest``: seconds that the stream may idle between two micro-batches.
    ``worked``: CPU seconds that the process and its engine have used.
    """

    name: str
    batches: Batches
    pending: Callable[[], Hashable]
    engine: Callable[[], Hashable]
    rest: float = 0.0
    worked: Callable[[], float] = lambda: 0.0


@dataclass
class Watch:
    """For how long one stream has been busy without progress. Only time during which checks ran is counted, so that a
    paused process or a machine that slept isn't taken for a hanging stream."""

    limit: float
    """Seconds; the minimum."""
    _mark: Hashable = None
    _engine: Hashable = _NOT_ASKED
    _silent: float = 0.0

    def look(self, stream: Stream, passed: float) -> TryAgain | None:
        """STREAM_HANGS if the stream hangs, else None. ``passed``: seconds since the last check."""
        batch, steps = stream.batches.current, stream.batches.steps
        position = _answer_or_none(stream.pending) if batch is None else None
        mark = None if batch is None and position is None else (batch, steps, position)
        if mark is None or mark != self._mark:
            self._mark, self._silent, self._engine = mark, 0.0, _NOT_ASKED
            return None
        done = _answer_or_none(stream.engine)
        if stream.batches.usual is None:
            done = (done, int(stream.worked() / (self.limit * TIMES_FIRST / 2)))
        if self._engine not in (_NOT_ASKED, done):
            self._silent = 0.0
        else:
            self._silent += passed
        self._engine = done
        allowed = self.allowed(stream.batches.usual) + (stream.rest if batch is None else 0.0)
        return _hangs(stream, batch, self._silent, allowed) if self._silent >= allowed else None

    def allowed(self, usual: float | None) -> float:
        return self.limit * TIMES_FIRST if usual is None else max(self.limit, TIMES_USUAL * usual)


@dataclass
class Watcher:
    """Checks the ``streams`` of this process periodically, in a thread that never calls the engine: an engine that
    doesn't answer may be what hangs. Calls ``end`` once, with STREAM_HANGS, or with CLOCK_SET_BACK if the process has
    not ended by itself since its clock was set back."""

    streams: Callable[[], Iterable[Stream]]
    end: Callable[[TryAgain], object]
    limit: float
    clock: Callable[[], float] = time.monotonic
    set_back: Callable[[], float] = lambda: 0.0
    """By how many seconds the machine's clock was set back (``WallClock``)."""
    _since_back: float = 0.0
    _watches: dict[Batches, Watch] = field(default_factory=dict)
    _stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.every = min(_LONGEST_LOOK, self.limit / _LOOKS)
        self._last = self.clock()

    def start(self) -> None:
        threading.Thread(target=self._run, name="liveness", daemon=True).start()

    def stop(self) -> None:
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(self.every):
            for hang in self.look():
                if not self._stop.is_set():
                    self.end(hang)
                return

    def look(self) -> Iterator[TryAgain]:
        """Check the clock and all streams once, and yield an error for each one that hangs."""
        now = self.clock()
        passed, self._last = min(now - self._last, 2 * self.every), now
        back = self.set_back()
        self._since_back = self._since_back + passed if back else 0.0
        if self._since_back >= self.limit:
            yield _stays(back, self._since_back)
        streams = list(self.streams())
        self._watches = {s.batches: self._watches.get(s.batches) or Watch(self.limit) for s in streams}
        for stream in streams:
            hang = self._watches[stream.batches].look(stream, passed)
            if hang is not None:
                yield hang


class BackgroundAnswer:
    """The last answer to a question that may never be answered. Each call starts the question again in a separate
    thread, if the previous one has been answered and ``every`` seconds have passed."""

    def __init__(self, question: Callable[[], Hashable], every: float = 0.0) -> None:
        self._question, self._every = question, every
        self._answer: Hashable = None
        self._thread: threading.Thread | None = None
        self._due = float("-inf")

    def __call__(self) -> Hashable:
        if (self._thread is None or not self._thread.is_alive()) and time.monotonic() >= self._due:
            self._due = time.monotonic() + self._every
            self._thread = threading.Thread(target=self._ask, name="liveness-asks", daemon=True)
            self._thread.start()
        return self._answer

    def _ask(self) -> None:
        self._answer = _answer_or_none(self._question)


def _answer_or_none(question: Callable[[], Hashable]) -> Hashable:
    try:
        return question()
    except Exception as error:  # the stream itself gets the same error and reports it
        log.debug("not known: %s", error)
        return None


def _stays(back: float, seconds: float) -> TryAgain:
    return TryAgain(
        "CLOCK_SET_BACK",
        f"the machine's clock was set back by {back:,.0f} s, and this process has not ended for {seconds:.0f} s",
        state="it is ended now; what was committed stays, and the interrupted micro-batch runs again",
        next_step="nothing: it restarts by itself",
        seconds=back,
    )


def _hangs(stream: Stream, batch: int | None, seconds: float, allowed: float) -> TryAgain:
    usual = stream.batches.usual
    what = "has something new to read and begins no micro-batch" if batch is None else f"is in micro-batch {batch}"
    rule = "none has ended yet" if usual is None else f"the median is {usual:.1f} s"
    return TryAgain(
        "STREAM_HANGS",
        f"{stream.name} {what}, without progress for {seconds:.0f} s; {allowed:.0f} s are allowed ({rule})",
        state="its process ends; what was committed stays, and the interrupted micro-batch runs again",
        next_step="nothing: it restarts by itself. If it hangs again, read the stacks in its log",
        stream=stream.name,
        batch=batch,
        seconds=seconds,
        usual=usual,
    )
