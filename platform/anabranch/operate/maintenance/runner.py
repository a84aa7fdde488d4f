"""One run of the maintenance: every table, then what lies beside them. Safe to repeat, and to kill at any point."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from anabranch.core.atomic_files import locked
from anabranch.core.errors import Conflict, root_cause
from anabranch.core.settings import Settings
from anabranch.lake.table_refs import EVERY, TableRef, existing_tables
from anabranch.operate.maintenance import compaction_journal, log_retention, orphans
from anabranch.operate.maintenance.compaction import compact, planned
from anabranch.operate.maintenance.report import Action, ActionKind, Policy, Report
from anabranch.operate.maintenance.vacuum import vacuum

Step = Callable[[], Iterator[Action]]
log = logging.getLogger(__name__)


def maintain(settings: Settings, policy: Policy | None = None, *, plan: bool = False) -> Report:
    """Merge small files, take away what is past its retention, and say what was done. With ``plan`` nothing is changed,
    and what would be done is said.

    What fails at one table is told, and the others go on. Conflict MAINTENANCE_RUNNING: another run has the lock.
    """
    asked, began = policy or Policy(keep_days=settings.keep_days), time.monotonic()
    found = list[Action]()
    with ExitStack() as held:
        if not plan:
            try:
                held.enter_context(locked(settings.locks / "maintenance"))
            except BlockingIOError:
                raise _running() from None
            if freed := compaction_journal.tidy(settings):
                found.append(Action(ActionKind.CLEANED, "maintenance", "left by a run that was killed", bytes=freed))
        for where, step in _steps(settings, asked, plan=plan):
            try:
                for deed in step():
                    log.info("%s", deed)
                    found.append(deed)
            except Exception as error:  # of one table: the others go on
                log.exception("%s", where)
                found.append(Action(ActionKind.FAILED, where, root_cause(error)))
            finally:
                if not plan:
                    compaction_journal.tidy(settings)
    return Report(tuple(found), time.monotonic() - began, plan)


def _steps(settings: Settings, policy: Policy, *, plan: bool) -> Iterator[tuple[str, Step]]:
    for place in existing_tables(settings, *EVERY):
        yield str(place), _of_table(settings, place, policy, plan=plan)
    for step in (
        orphans.builds, orphans.replays, orphans.checkpoints, orphans.logs, orphans.drafts, orphans.engines
    ):  # fmt: skip
        yield step.__name__, _beside(step, settings, policy, plan=plan)


def _of_table(settings: Settings, place: TableRef, policy: Policy, *, plan: bool) -> Step:
    def steps() -> Iterator[Action]:
        yield from planned(place, policy) if plan else compact(settings, place, policy)
        yield from log_retention.checkpoint(place, policy, plan=plan)
        yield from vacuum(settings, place, policy, plan=plan)
        yield from log_retention.clean(settings, place, policy, plan=plan)

    return steps


def _beside(step: Callable[..., Iterator[Action]], settings: Settings, policy: Policy, *, plan: bool) -> Step:
    return lambda: step(settings, policy, plan=plan)


def _running() -> Conflict:
    return Conflict(
        "MAINTENANCE_RUNNING",
        "another run of the maintenance is under way",
        state="nothing was changed by this one",
        next_step="wait for it, or look at the DAG maintain in Airflow",
    )
