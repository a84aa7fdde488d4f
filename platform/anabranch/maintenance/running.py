"""One run of the maintenance: every table, then what lies beside them. Safe to repeat, and to kill at any point."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from anabranch.errors import Conflict, said
from anabranch.files import locked
from anabranch.maintenance import history, journal, leftovers
from anabranch.maintenance.compacting import compact, planned
from anabranch.maintenance.deeds import Act, Deed, Done, Policy
from anabranch.maintenance.vacuum import vacuum
from anabranch.settings import Settings
from anabranch.tables.places import EVERY, Place, places

Step = Callable[[], Iterator[Deed]]
log = logging.getLogger(__name__)


def maintain(settings: Settings, policy: Policy | None = None, *, plan: bool = False) -> Done:
    """Merge small files, take away what is past its retention, and say what was done. With ``plan`` nothing is changed,
    and what would be done is said.

    What fails at one table is told, and the others go on. Conflict MAINTENANCE_RUNNING: another run has the lock.
    """
    asked, began = policy or Policy(keep_days=settings.keep_days), time.monotonic()
    found = list[Deed]()
    with ExitStack() as held:
        if not plan:
            try:
                held.enter_context(locked(settings.locks / "maintenance"))
            except BlockingIOError:
                raise _running() from None
            if freed := journal.tidy(settings):
                found.append(Deed(Act.CLEANED, "maintenance", "left by a run that was killed", bytes=freed))
        for where, step in _steps(settings, asked, plan=plan):
            try:
                for deed in step():
                    log.info("%s", deed)
                    found.append(deed)
            except Exception as error:  # of one table: the others go on
                log.exception("%s", where)
                found.append(Deed(Act.FAILED, where, said(error)))
            finally:
                if not plan:
                    journal.tidy(settings)
    return Done(tuple(found), time.monotonic() - began, plan)


def _steps(settings: Settings, policy: Policy, *, plan: bool) -> Iterator[tuple[str, Step]]:
    for place in places(settings, *EVERY):
        yield str(place), _of_table(settings, place, policy, plan=plan)
    for step in (
        leftovers.builds, leftovers.replays, leftovers.checkpoints, leftovers.logs, leftovers.drafts, leftovers.engines
    ):  # fmt: skip
        yield step.__name__, _beside(step, settings, policy, plan=plan)


def _of_table(settings: Settings, place: Place, policy: Policy, *, plan: bool) -> Step:
    def steps() -> Iterator[Deed]:
        yield from planned(place, policy) if plan else compact(settings, place, policy)
        yield from history.checkpoint(place, policy, plan=plan)
        yield from vacuum(settings, place, policy, plan=plan)
        yield from history.clean(settings, place, policy, plan=plan)

    return steps


def _beside(step: Callable[..., Iterator[Deed]], settings: Settings, policy: Policy, *, plan: bool) -> Step:
    return lambda: step(settings, policy, plan=plan)


def _running() -> Conflict:
    return Conflict(
        "MAINTENANCE_RUNNING",
        "another run of the maintenance is under way",
        state="nothing was changed by this one",
        next_step="wait for it, or look at the DAG maintain in Airflow",
    )
