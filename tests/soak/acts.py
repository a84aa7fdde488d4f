"""What people and schedules ask of the platform, by Airflow's public REST API and the command line. Each has to come to
its end by itself, whatever is killed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

from anabranch.apps.airflow.client import Run
from anabranch.change.migrate.migration_record import migration_of
from anabranch.change.replay.state import list_states
from anabranch.compute.batch.publish import publications
from anabranch.core.settings import Settings
from anabranch.lake.layout import VersionRef
from anabranch.serve.routes import route_of
from anabranch_samples.demo.change import CHANGED
from support.dag_requests import Asking

from soak import judging
from soak.commands import command, patiently
from soak.judging import Ended, Worked
from soak.load import Load
from soak.readers import Readers

VIEW, OLD, NEW = "departure_delays", 1, 2
_PATIENCE = 1_800.0
_LED_BACK, _BACK_FROM_ALL = "the soak leads back", "the soak has seen all readers there"
_WISH = {
    "view": VIEW, "from": OLD, "to": NEW, "why": "a soak", "steps": "10,50,100", "soak": "20 seconds",
    "changed": list(CHANGED), "checks": ["flights >= delayed"],
    # A stream that is killed is behind for as long as an engine takes to start: here that is no reason to lead back.
    "behind": 300,
}  # fmt: skip


class Acts:
    """Each gives what came of it, piece by piece; nothing where it can't be done yet."""

    def __init__(self, settings: Settings, load: Load, rng: Random, begun: float) -> None:
        self._settings, self._load, self._rng, self._begun = settings, load, rng, begun
        self._number = 0

    def backfill(self, asked: Asking) -> Iterator[Worked]:
        """Airflow's own, of three days that nobody has published."""
        first = self._load.three_days(self._rng)
        if first is None:
            return
        days, dag = [first + timedelta(days=n) for n in range(3)], f"reprocess_{VIEW}.v{OLD}"
        at = self._now()
        runs = asked.backfill(dag, days, patience=_PATIENCE)
        shown = {day: each.run for day, each in publications(VersionRef(self._settings, VIEW, OLD).batch_table).items()}
        yield self._worked(judging.BACKFILL, at, judging.backfilled(days, runs, shown))
        for day, run in sorted(runs.items()):
            outcome = judging.reprocessed(run, [day], self._published(asked, run))
            yield self._worked("run of the backfill", at, outcome)

    def replay(self, asked: Asking) -> Iterator[Worked]:
        """The whole view; its stream goes on with the replay's state."""
        at, run = self._run(asked, "replay", {"view": VIEW, "version": OLD, "share": 50})
        found = list_states(VersionRef(self._settings, VIEW, OLD))
        yield self._worked(judging.REPLAY, at, judging.replayed(run, found[-1] if found else None))

    def to_all(self, asked: Asking) -> Iterator[Worked]:
        """To 100 % of the readers, looked at there, and back again: else the next one would have no readers to lead."""
        with Readers(self._settings, VIEW) as readers:
            at, run = self._run(asked, "migrate", _WISH)
            found, had = migration_of(self._settings, VIEW), readers.everybody()
        route = route_of(self._settings, VIEW)
        shares = route.shares if route else {}
        ended = judging.led_to_all(run, found[1] if found else None, shares, had, readers.wrong)
        yield self._worked(judging.TO_ALL, at, ended._replace(note=f"{ended.note}; {readers}"))
        arguments = ("compare", VIEW, f"{OLD}", f"{NEW}", *(part for name in CHANGED for part in ("--changed", name)))
        yield self._command("compare", lambda: patiently(self._settings, "NO_COMMON_CUT", *arguments))
        yield self._back(_BACK_FROM_ALL)
        at, found = self._now(), migration_of(self._settings, VIEW)
        wrong = [] if found and found[1].share == 0 else [f"{found[1] if found else 'no migration'}"]
        wrong += [f"{name} has v{version} still" for name, version in readers.everybody().items() if version != OLD][:1]
        told = Ended("failed" if wrong else "success", not wrong, "; ".join(wrong) or f"all readers have v{OLD} again")
        yield self._worked(judging.TO_ALL_AND_BACK, at, told)

    def in_vain(self, asked: Asking) -> Iterator[Worked]:
        """To a share at which a person leads everybody back; the run is red then, and says so. Its steps are longer:
        that person has to see them, also when who answers them is killed."""
        until, commands = self._rng.choice((10, 50)), list[Worked]()

        def look(_: Run) -> None:
            found = migration_of(self._settings, VIEW)
            if found is not None and found[1].active and found[1].share >= until:
                commands.append(self._back(_LED_BACK))

        with Readers(self._settings, VIEW) as readers:
            at, run = self._run(asked, "migrate", {**_WISH, "soak": "60 seconds"}, look)
            found, had = migration_of(self._settings, VIEW), readers.everybody()
        yield from commands
        migration, why = (found[1], found[0].why) if found else (None, "")
        ended = judging.led_back(run, migration, why, _LED_BACK, had, readers.wrong)
        yield self._worked(judging.IN_VAIN, at, ended._replace(note=f"{ended.note}; {readers}"))

    def days_again(self, asked: Asking) -> Iterator[Worked]:
        chosen = self._load.days(self._rng)
        if chosen is None:
            return
        (first, last), version = chosen, self._rng.choice(("", f".v{OLD}"))
        days = [first + timedelta(days=n) for n in range((last - first).days + 1)]
        at, run = self._run(asked, f"reprocess_{VIEW}{version}", {"from": f"{first}", "to": f"{last}"})
        yield self._worked("reprocess", at, judging.reprocessed(run, days, self._published(asked, run)))

    def repair(self, asked: Asking) -> Iterator[Worked]:
        at, run = self._run(asked, f"repair_{VIEW}.v{OLD}", {})
        yield self._worked("repair", at, judging.reprocessed(run, None, self._published(asked, run)))

    def compaction(self, asked: Asking) -> Iterator[Worked]:
        at, run = self._run(asked, "maintain", {})
        yield self._worked("maintain", at, judging.plain(run))

    def missing(self, view: str, version: int) -> Worked:
        """All days of a version that were never published, as the doctor's own advice says."""
        arguments = ("reprocess", view, "--version", f"{version}", "--missing", "--approve")
        found = self._command("reprocess --missing", lambda: command(self._settings, *arguments, seconds=3_600))
        return replace(found, note=f"{view} v{version}: {found.note}")

    def _back(self, why: str) -> Worked:
        """A route that the migration has moved in that very moment is looked at again."""
        arguments = ("migrate", "rollback", VIEW, "--why", why)
        return self._command("migrate rollback", lambda: patiently(self._settings, "ROUTE_MOVED", *arguments))

    def _run(
        self, asked: Asking, dag: str, conf: Mapping[str, Any], look: Callable[[Run], None] = lambda _: None
    ) -> tuple[float, Run]:
        """A run that has ended, with all that it asked approved, and when it began."""
        self._number += 1
        at = self._now()
        return at, asked.ended(dag, conf, f"soak__{dag}__{self._number}", look, patience=_PATIENCE)

    @staticmethod
    def _published(asked: Asking, run: Run) -> Mapping[str, Any] | None:
        found: Mapping[str, Any] | None = asked.again(lambda: asked.client.xcom(run, "publish"))
        return found

    def _command(self, name: str, call: Callable[[], Any]) -> Worked:
        at = self._now()
        said = call()
        return self._worked(f"command: {name}", at, judging.commanded(said.code, said.text))

    def _worked(self, kind: str, at: float, ended: Ended) -> Worked:
        return Worked(kind, ended.state, ended.wanted, self._now() - at, ended.note, at)

    def _now(self) -> float:
        return time.monotonic() - self._begun
