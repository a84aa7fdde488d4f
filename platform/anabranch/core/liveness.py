"""Whether streams make progress: one that hangs raises no error, so nobody else would ever start it again.

A stream is busy while it has a micro-batch in hand, or there is something new for it to read. It makes progress when a
micro-batch begins or ends, when a step of one is done, and when the engine ends a task for it. One that
is busy without any progress for too long hangs. A thread of the JVM that hangs can't be stopped, so its process ends,
and whoever watches that starts it again: what was in hand begins anew behind the newest commit.
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
"""Until a stream has ended a micro-batch in this process nobody knows its usual time: it may build a view from years,
in an engine that is cold. It has so many times the limit, without any progress; a single task may take longer, so that
the process works (half of a core, at least) counts as progress then."""
_REMEMBERED: Final = 20
_LOOKS: Final = 12
"""Within a limit."""
_LONGEST_LOOK: Final = 2.0
_UNASKED: Final = object()
log = logging.getLogger(__name__)


_UNITS: Final = {"millisecond": 0.001, "second": 1.0, "minute": 60.0, "hour": 3600.0}


def seconds_of(interval: str) -> float:
    """Of an interval of the settings: ``1 second``."""
    number, unit = interval.split()
    return float(number) * _UNITS[unit.removesuffix("s")]


class Batches:
    """The micro-batches of one stream, noted by its sink: which one is in hand, and how long they take (seconds, by a
    clock that nobody sets)."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.in_hand: int | None = None
        self.steps = 0
        """Grows with each step that was done."""
        self._clock = clock
        self._took: deque[float] = deque(maxlen=_REMEMBERED)

    @contextmanager
    def carrying_out(self, number: int) -> Iterator[None]:
        """While this lasts, micro-batch ``number`` is in hand."""
        begun = self._clock()
        self.in_hand = number
        try:
            yield
            self._took.append(self._clock() - begun)
        finally:
            self.in_hand = None
            self.step()

    def step(self) -> None:
        """Something of the micro-batch in hand is done: for long work outside of the engine."""
        self.steps += 1

    @property
    def usual(self) -> float | None:
        """The median of the last ones; None before the first has ended."""
        return median(self._took) if self._took else None


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream that runs.

    ``news``: where it stands, when there is something new to read behind that; None when there isn't, or when nobody
    can say. ``engine``: what the engine has done for it, which changes with each task. Both are asked by a thread of
    their own; what they raise counts as None. ``rest``: seconds that it may rest between two micro-batches. ``worked``:
    the seconds of CPU that the process and its engine have used.
    """

    name: str
    batches: Batches
    news: Callable[[], Hashable]
    engine: Callable[[], Hashable]
    rest: float = 0.0
    worked: Callable[[], float] = lambda: 0.0


@dataclass
class Watch:
    """For how long one stream has been busy without any progress: the time that passed while somebody looked, so that
    a process which was paused, or a machine that slept, isn't taken for a stream that hangs."""

    limit: float
    """Seconds, at least."""
    _mark: Hashable = None
    _engine: Hashable = _UNASKED
    _silent: float = 0.0

    def look(self, stream: Stream, passed: float) -> TryAgain | None:
        """STREAM_HANGS, if it does; ``passed``: seconds since the last look."""
        batch, steps = stream.batches.in_hand, stream.batches.steps
        stands = _asked(stream.news) if batch is None else None
        mark = None if batch is None and stands is None else (batch, steps, stands)
        if mark is None or mark != self._mark:
            self._mark, self._silent, self._engine = mark, 0.0, _UNASKED
            return None
        done = _asked(stream.engine)
        if stream.batches.usual is None:
            done = (done, int(stream.worked() / (self.limit * TIMES_FIRST / 2)))
        if self._engine not in (_UNASKED, done):
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
    """Looks at the ``streams`` of this process again and again, in a thread of its own that never calls the engine: an
    engine that doesn't answer may be what hangs. ``end`` is called once, with STREAM_HANGS."""

    streams: Callable[[], Iterable[Stream]]
    end: Callable[[TryAgain], object]
    limit: float
    clock: Callable[[], float] = time.monotonic
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
        """Those that hang now."""
        now = self.clock()
        passed, self._last = min(now - self._last, 2 * self.every), now
        streams = list(self.streams())
        self._watches = {s.batches: self._watches.get(s.batches) or Watch(self.limit) for s in streams}
        for stream in streams:
            hang = self._watches[stream.batches].look(stream, passed)
            if hang is not None:
                yield hang


class Asked:
    """The last answer to a question that may never be answered. It is asked again at each call, in a thread beside,
    where the last one has been answered, but no more often than ``every`` seconds."""

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
        self._answer = _asked(self._question)


def _asked(question: Callable[[], Hashable]) -> Hashable:
    try:
        return question()
    except Exception as error:  # the stream itself meets it too, and says it
        log.debug("not known: %s", error)
        return None


def _hangs(stream: Stream, batch: int | None, seconds: float, allowed: float) -> TryAgain:
    usual = stream.batches.usual
    what = "has something new to read and begins no micro-batch" if batch is None else f"is in micro-batch {batch}"
    rule = "none has ended yet" if usual is None else f"one takes {usual:.1f} s as a rule"
    return TryAgain(
        "STREAM_HANGS",
        f"{stream.name} {what}, without any progress for {seconds:.0f} s; {allowed:.0f} s are allowed ({rule})",
        state="its process ends; what was committed stays, and what was in hand begins anew",
        next_step="nothing: it is started again by itself. If it hangs again, the stacks in its log say where",
        stream=stream.name,
        batch=batch,
        seconds=seconds,
        usual=usual,
    )
