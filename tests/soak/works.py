"""Who asks for all that: one person, one thing after the other, and beside it the compactions of a schedule."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from random import Random

from anabranch.core.settings import Settings
from support.dag_requests import Asking, asking

from soak.acts import Acts
from soak.judging import Worked
from soak.load import Load

Act = Callable[[Asking], Iterator[Worked]]
_SCHEDULE = (60, 120)
"""Seconds between two compactions: as many in half an hour as else in a day."""
_PERSON = (2, 10)


class Works:
    """What is due is done once, also when the events have ended meanwhile; then one thing after the other, until they
    are told to stop. Each run is waited for."""

    def __init__(self, settings: Settings, load: Load, rng: Random, begun: float, tell: Callable[[str], None]) -> None:
        self.done = list[Worked]()
        self.acts = acts = Acts(settings, load, rng, begun)
        self._settings, self._rng, self._begun, self._tell = settings, rng, begun, tell
        self._stopped = threading.Event()
        due = (acts.backfill, acts.replay, acts.to_all)
        then = (acts.days_again, acts.in_vain, acts.days_again, acts.repair)
        self._threads = [
            threading.Thread(target=self._work, args=each, daemon=True)
            for each in ((due, then, _PERSON), ((), (acts.compaction,), _SCHEDULE))
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Begin nothing more but what is due, and wait for what was begun."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def keep(self, found: Worked) -> None:
        self.done.append(found)
        as_it_should = "" if found.wanted else f"  NOT AS IT HAD TO: {found.note}"
        self._tell(f"{found.kind}: {found.state} in {found.seconds:.0f} s{as_it_should}")

    def _work(self, due: Sequence[Act], then: Sequence[Act], pause: tuple[float, float]) -> None:
        waiting, turns = deque(due), cycle(then)
        with asking(self._settings) as asked:
            while True:
                over = self._stopped.wait(self._rng.uniform(*pause))
                if over and not waiting:
                    return
                act = waiting[0] if waiting else next(turns)
                if (self._done(act, asked) or over) and waiting:  # what can't be done by then never can
                    waiting.popleft()

    def _done(self, act: Act, asked: Asking) -> bool:
        """Whether there was anything to do."""
        begun, did = time.monotonic(), False
        try:
            for found in act(asked):
                self.keep(found)
                did = True
        except Exception as error:  # the report has to say so, not a thread's last words
            took, name = time.monotonic() - begun, act.__name__.strip("_")
            self.keep(Worked(name, "unfinished", False, took, f"{type(error).__name__}: {error}", begun - self._begun))
            return True
        return did
