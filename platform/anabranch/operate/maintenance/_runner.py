"""Runs the maintenance: every table, then leftovers outside of them. Safe to repeat and to kill at any point."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from anabranch.core.atomic_files import locked
from anabranch.core.clocks import jump_text, note_clock, read_clock, unjumped
from anabranch.core.errors import BadInput, Conflict, root_cause
from anabranch.core.settings import Settings
from anabranch.core.storage import storage_of
from anabranch.lake.layout import EVERY, TableRef, existing_tables
from anabranch.operate.maintenance import _compaction_journal, _log_retention, _orphans
from anabranch.operate.maintenance._compaction import compact, planned
from anabranch.operate.maintenance._report import Action, ActionKind, Policy, Report
from anabranch.operate.maintenance._unpublished_builds import unpublished
from anabranch.operate.maintenance._vacuum import vacuum

Step = Callable[[], Iterator[Action]]
log = logging.getLogger(__name__)


def maintain(settings: Settings, policy: Policy | None = None, *, plan: bool = False) -> Report:
    """Merges small files, deletes what is past its retention, and reports it. With ``plan``, reports what would be done
    and changes nothing.

    A failure at one table is reported, and the others are still processed. Raises Conflict MAINTENANCE_RUNNING if
    another run holds the lock, and BadInput NO_HOME for a folder that no platform has written to: what is deleted in a
    home goes by its name only. BrokenState CLOCK_UNREADABLE.
    """
    if not any(storage_of(folder).holds(folder) for folder in (settings.home / "control", settings.lake)):
        raise BadInput(
            "NO_HOME",
            f"{settings.home} is the home of no platform",
            state="nothing was changed",
            next_step="set ANABRANCH_HOME to the right folder; a new platform needs no maintenance before anabranch up",
            home=str(settings.home),
        )
    began, found = time.monotonic(), list[Action]()
    with ExitStack() as held:
        if not plan:
            held.enter_context(locked(settings.locks / "maintenance", refusal=_running()))
        if policy is None:
            clock = read_clock(settings) if plan else note_clock(settings)
            policy = Policy(keep_days=settings.keep_days, now=unjumped(clock))
            if jumped := jump_text(clock):
                said = f"{jumped}; ages are measured without that for 30 days"
                found.append(Action(ActionKind.HELD_BACK, "clock", said))
        if not plan:
            found += _tidied(settings)
        for where, step in _steps(settings, policy, plan=plan):
            try:
                for action in step():
                    log.info("%s", action)
                    found.append(action)
            except Exception as error:  # the other tables are still processed
                log.exception("%s", where)
                found.append(Action(ActionKind.FAILED, where, root_cause(error)))
            finally:
                if not plan:
                    found += [action for action in _tidied(settings) if action not in found]
    return Report(tuple(found), time.monotonic() - began, plan)


def _tidied(settings: Settings) -> Iterator[Action]:
    """Deletes what a killed compaction left; of a failure only that table's files stay, and nothing is merged."""
    try:
        if freed := _compaction_journal.tidy(settings):
            yield Action(ActionKind.CLEANED, "maintenance", "staged files of a killed run", bytes=freed)
    except Exception as error:  # what is old is still deleted
        log.exception("the record of a compaction")
        yield Action(ActionKind.FAILED, "record of a compaction", root_cause(error))


def _steps(settings: Settings, policy: Policy, *, plan: bool) -> Iterator[tuple[str, Step]]:
    for place in existing_tables(settings, *EVERY):
        yield str(place), _of_table(settings, place, policy, plan=plan)
    for step in (
        unpublished,
        _orphans.builds, _orphans.replays, _orphans.checkpoints, _orphans.logs, _orphans.drafts, _orphans.engines
    ):  # fmt: skip
        yield step.__name__, _of_orphans(step, settings, policy, plan=plan)


def _of_table(settings: Settings, place: TableRef, policy: Policy, *, plan: bool) -> Step:
    def steps() -> Iterator[Action]:
        yield from planned(place, policy) if plan else compact(settings, place, policy)
        yield from _log_retention.checkpoint(place, policy, plan=plan)
        yield from vacuum(settings, place, policy, plan=plan)
        yield from _log_retention.clean(settings, place, policy, plan=plan)

    return steps


def _of_orphans(step: Callable[..., Iterator[Action]], settings: Settings, policy: Policy, *, plan: bool) -> Step:
    return lambda: step(settings, policy, plan=plan)


def _running() -> Conflict:
    return Conflict(
        "MAINTENANCE_RUNNING",
        "another maintenance run is in progress",
        state="this one changed nothing",
        next_step="wait for it, or open the DAG maintain in Airflow",
    )
