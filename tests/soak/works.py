"""What people and schedules ask of the platform meanwhile, by Airflow's public REST API: days again, migrations that
are led back, compactions, repairs. Each run has to come to its end by itself, whatever is killed."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import cycle
from random import Random
from typing import Any

from anabranch.airflow.client import Run
from anabranch.change.migration import migration_of
from anabranch.control.environment import environment
from anabranch.settings import Settings
from asking import asking

from soak.load import Load

VIEW = "departure_delays"


@dataclass(frozen=True, slots=True)
class Worked:
    """A run: ``state`` as Airflow says it, ``wanted``: whether that is how it had to end."""

    kind: str
    state: str
    wanted: bool
    seconds: float
    note: str


class Works:
    """One after the other, until it is told to stop; each is waited for."""

    def __init__(self, settings: Settings, load: Load, rng: Random, tell: Callable[[str], None]) -> None:
        self.done = list[Worked]()
        self._settings, self._load, self._rng, self._tell = settings, load, rng, tell
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, name="works", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Begin nothing more, and wait for what was begun."""
        self._stopped.set()
        self._thread.join()

    def _work(self) -> None:
        some = (self._days_again, self._migration, self._days_again, self._repair)
        kinds = cycle(work for each in some for work in (each, self._compaction))
        with asking(self._settings) as self._asking:
            while not self._stopped.wait(self._rng.uniform(2, 10)):
                begun, kind = time.monotonic(), next(kinds)
                try:
                    found = kind()
                except Exception as error:  # the report has to say so, not a thread's last words
                    found = Worked(kind.__name__.strip("_"), "unfinished", False, time.monotonic() - begun, f"{error}")
                if found is not None:
                    self.done.append(found)
                    as_it_should = "" if found.wanted else f"  NOT AS IT HAD TO: {found.note}"
                    self._tell(f"{found.kind}: {found.state} in {found.seconds:.0f} s{as_it_should}")

    def _days_again(self) -> Worked | None:
        days = self._load.days(self._rng)
        if days is None:
            return None
        (first, last), version = days, self._rng.choice(("", ".v1"))
        return self._ended("reprocess", f"reprocess_{VIEW}{version}", {"from": f"{first}", "to": f"{last}"})

    def _repair(self) -> Worked:
        return self._ended("repair", f"repair_{VIEW}", {})

    def _compaction(self) -> Worked:
        return self._ended("maintain", "maintain", {})

    def _migration(self) -> Worked:
        """To a share at which a person leads everybody back; the run is red then, and says so."""
        asked = {"view": VIEW, "from": 1, "to": 2, "why": "a soak", "steps": "10,50,100", "soak": "20 seconds"}
        until = self._rng.choice((10, 50))

        def look(run: Run) -> None:
            found = migration_of(self._settings, VIEW)
            if found is not None and found[1].active and found[1].share >= until:
                self._command("migrate", "rollback", VIEW, "--why", "the soak leads back")

        ended = self._ended("migrate", "migrate", {**asked, "changed": ["delayed"]}, look)
        led_back = ended.state == "failed" and "rolled back" in ended.note
        return replace(ended, state="led back" if led_back else ended.state, wanted=led_back)

    def _ended(
        self, kind: str, dag: str, conf: Mapping[str, Any], look: Callable[[Run], None] = lambda _: None
    ) -> Worked:
        begun = time.monotonic()
        run = self._asking.ended(dag, conf, f"soak__{kind}__{len(self.done)}", look)
        return Worked(kind, run.state, run.state == "success", time.monotonic() - begun, run.note)

    def _command(self, *arguments: str) -> None:
        subprocess.run(
            [sys.executable, "-m", "anabranch.cli.main", *arguments],
            env=environment(self._settings), check=False, capture_output=True, timeout=120,
        )  # fmt: skip
