"""What was asked for meanwhile, and whether it ended as it had to: by what readers have then, not by its colour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, NamedTuple

from anabranch.apps.airflow.client import Run
from anabranch.change.migrate.migration_record import Migration
from anabranch.change.replay.state import PUBLISHED, ReplayState
from anabranch.change.run_names import run_key

BACKFILL, REPLAY, MISSING = "backfill of three days", "replay of the whole view", "command: reprocess --missing"
TO_ALL, TO_ALL_AND_BACK, IN_VAIN = "migration to 100 %", "rollback of it", "migration that is led back"
DUE = (BACKFILL, REPLAY, TO_ALL, MISSING)
"""A soak without one of these shows less than it promises."""


@dataclass(frozen=True, slots=True)
class Worked:
    """A run of Airflow's, or a command. ``state``: as Airflow says it, or its exit code. ``wanted``: whether it ended
    as it had to. ``note``: what it said, or what is wrong. ``at``: when it began, in seconds of the soak."""

    kind: str
    state: str
    wanted: bool
    seconds: float
    note: str
    at: float = 0.0


class Ended(NamedTuple):
    state: str
    wanted: bool
    note: str


def plain(run: Run) -> Ended:
    """A run that only has to be green."""
    return Ended(run.state, run.state == "success", run.note)


def reprocessed(run: Run, days: Sequence[date] | None, outcome: Mapping[str, Any] | None) -> Ended:
    """``outcome``: what the step `publish` has handed on; None where it was skipped. ``days``: those that were asked
    for; None where the run finds them itself, and may find none."""
    if run.state != "success":
        return Ended(run.state, wanted=False, note=run.note)
    wrong = ""
    if outcome is None:
        wrong = "nothing was published" if days is not None else ""
    elif outcome["refused"]:
        wrong = f"not published: {', '.join(outcome['refused'])}"
    elif days is not None and outcome["published"] != [f"{day}" for day in days]:
        wrong = f"published: {', '.join(outcome['published'])}; asked for: {', '.join(map(str, days))}"
    return Ended(run.state, not wrong, wrong or run.note)


def backfilled(days: Sequence[date], runs: Mapping[date, Run], shown: Mapping[date, str]) -> Ended:
    """One run a day, each green, and readers have each day as its own run has made it. ``shown``: which run that is."""
    wrong = []
    for day in days:
        run = runs.get(day)
        if run is None:
            wrong.append(f"{day}: Airflow made no run")
        elif run.state != "success":
            wrong.append(f"{day}: {run.state or 'not begun'}: {run.note}")
        elif shown.get(day) != run_key(run.run_id, 0):
            wrong.append(f"{day}: readers have what {shown.get(day, 'no run')} has made, not {run.run_id}")
    told = f"{len(days)} of {len(days)} days published, each by a run of its own: {days[0]} to {days[-1]}"
    return Ended("failed" if wrong else "success", not wrong, "; ".join(wrong) or told)


def replayed(run: Run, standing: ReplayState | None) -> Ended:
    """Published, with every certificate equal."""
    if run.state != "success" or standing is None or standing.phase != PUBLISHED:
        became = f"{standing.phase}: {standing.said}" if standing else "no replay"
        return Ended(run.state, wanted=False, note=f"{became}. {run.note}")
    equal = standing.equal == standing.partitions > 0
    return Ended(run.state, equal, standing.said)


def led_to_all(
    run: Run, migration: Migration | None, shares: Mapping[int, int], had: Mapping[str, int], wrong: Sequence[str]
) -> Ended:
    """Done, at 100 %, and every reader has the new version. ``had``: the version that each reader got then. ``wrong``:
    reads meanwhile that were."""
    if migration is None:
        return Ended(run.state, wanted=False, note=f"no migration: {run.note}")
    state, found = f"{run.state}, {migration.share} %", list(wrong)
    if run.state != "success" or migration.state != "done" or migration.share != 100:
        found.insert(0, f"{migration}: {run.note}")
    if dict(shares) != {migration.new: 100}:
        found.append(f"the route of its readers is {dict(shares)}")
    if others := sorted(name for name, version in had.items() if version != migration.new):
        found.append(f"{len(others)} of {len(had)} readers have another version: {others[0]}: v{had[others[0]]}")
    if not had:
        found.append("nobody has read it")
    return Ended(state, not found, "; ".join(found) or f"all {len(had)} readers have v{migration.new}")


def led_back(
    run: Run, migration: Migration | None, why: str, wanted_why: str, had: Mapping[str, int], wrong: Sequence[str]
) -> Ended:
    """By a person, for ``wanted_why``, not by a check that failed; the run is red then, and says so. ``why``: what the
    route says."""
    found = list(wrong)
    if migration is None or migration.state != "rolled back" or why != wanted_why:
        found.insert(0, f"{migration or 'no migration'}: {why}")
    if run.state != "failed":
        found.append(f"its run ended as {run.state}")
    if migration is not None:
        found += [f"{name} has v{version} still" for name, version in had.items() if version != migration.old][:1]
    return Ended("led back" if not found else run.state, not found, "; ".join(found) or f"{migration}")


def commanded(code: int, said: str) -> Ended:
    return Ended(f"exit code {code}", code == 0, said)
