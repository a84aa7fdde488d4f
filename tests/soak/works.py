"""What people and schedules ask of the platform meanwhile, by Airflow's public REST API: days again, migrations that
are led back, compactions, repairs. Each run has to come to its end by itself, whatever is killed."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from random import Random
from typing import Any

from anabranch.apps.airflow.client import Run
from anabranch.change.migration import migration_of
from anabranch.core.settings import Settings
from anabranch.operate.runtime.environment import environment
from asking import Asking, asking

from soak.load import Load

VIEW = "departure_delays"
_SCHEDULE = (60, 120)
"""Seconds between two compactions: as many in half an hour as else in a day."""


@dataclass(frozen=True, slots=True)
class Worked:
    """A run: ``state`` as Airflow says it, ``wanted``: whether that is how it had to end."""

    kind: str
    state: str
    wanted: bool
    seconds: float
    note: str


class Works:
    """What people ask for, one after the other, and beside it the compactions of a schedule; each is waited for, until
    they are told to stop."""

    def __init__(self, settings: Settings, load: Load, rng: Random, tell: Callable[[str], None]) -> None:
        self.done = list[Worked]()
        self._settings, self._load, self._rng, self._tell = settings, load, rng, tell
        self._stopped = threading.Event()
        asked = (self._days_again, self._migration, self._days_again, self._repair)
        self._threads = [
            threading.Thread(target=self._work, args=(kinds, pause), daemon=True)
            for kinds, pause in ((asked, (2, 10)), ((self._compaction,), _SCHEDULE))
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Begin nothing more, and wait for what was begun."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def _work(self, kinds: Sequence[Callable[[Asking], Worked | None]], pause: tuple[float, float]) -> None:
        turns = cycle(kinds)
        with asking(self._settings) as asked:
            while not self._stopped.wait(self._rng.uniform(*pause)):
                begun, kind = time.monotonic(), next(turns)
                try:
                    found = kind(asked)
                except Exception as error:  # the report has to say so, not a thread's last words
                    found = Worked(kind.__name__.strip("_"), "unfinished", False, time.monotonic() - begun, f"{error}")
                if found is not None:
                    self.done.append(found)
                    as_it_should = "" if found.wanted else f"  NOT AS IT HAD TO: {found.note}"
                    self._tell(f"{found.kind}: {found.state} in {found.seconds:.0f} s{as_it_should}")

    def _days_again(self, asked: Asking) -> Worked | None:
        days = self._load.days(self._rng)
        if days is None:
            return None
        (first, last), version = days, self._rng.choice(("", ".v1"))
        return self._ended(asked, "reprocess", f"reprocess_{VIEW}{version}", {"from": f"{first}", "to": f"{last}"})

    def _repair(self, asked: Asking) -> Worked:
        return self._ended(asked, "repair", f"repair_{VIEW}", {})

    def _compaction(self, asked: Asking) -> Worked:
        return self._ended(asked, "maintain", "maintain", {})

    def _migration(self, asked: Asking) -> Worked:
        """To a share at which a person leads everybody back; the run is red then, and says so."""
        conf = {"view": VIEW, "from": 1, "to": 2, "why": "a soak", "steps": "10,50,100", "soak": "20 seconds"}
        until = self._rng.choice((10, 50))

        def look(run: Run) -> None:
            found = migration_of(self._settings, VIEW)
            if found is not None and found[1].active and found[1].share >= until:
                self._command("migrate", "rollback", VIEW, "--why", "the soak leads back")

        ended = self._ended(asked, "migrate", "migrate", {**conf, "changed": ["delayed"]}, look)
        led_back = ended.state == "failed" and "rolled back" in ended.note
        return replace(ended, state="led back" if led_back else ended.state, wanted=led_back)

    def _ended(
        self, asked: Asking, kind: str, dag: str, conf: Mapping[str, Any], look: Callable[[Run], None] = lambda _: None
    ) -> Worked:
        begun = time.monotonic()
        run = asked.ended(dag, conf, f"soak__{kind}__{len(self.done)}", look)
        return Worked(kind, run.state, run.state == "success", time.monotonic() - begun, run.note)

    def _command(self, *arguments: str) -> None:
        subprocess.run(
            [sys.executable, "-m", "anabranch.apps.cli.main", *arguments],
            env=environment(self._settings), check=False, capture_output=True, timeout=120,
        )  # fmt: skip
