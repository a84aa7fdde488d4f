"""The tasks of a migration: build what the new version lacks, compare, get a person's approval, move the readers.

The state of a migration is stored only in the view's route (ADR 0016), so each task may be killed and repeated.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, PokeReturnValue, TriggerRule, get_current_context, task
from airflow.sdk.exceptions import AirflowSkipException

from anabranch.apps.airflow._approval import Approval, PlanApproval, answered_by
from anabranch.apps.airflow._reprocess_tasks import NOTHING_STARTED, failing, publish, tell
from anabranch.apps.airflow._retry_policy import NeedsFix
from anabranch.apps.airflow._spark_job import rebuilt
from anabranch.core.errors import BadInput, Conflict, TryAgain
from anabranch.core.settings import Settings, load_settings
from anabranch.lake.layout import VersionRef

if TYPE_CHECKING:
    from airflow.sdk import Context

    from anabranch.change.migrate.migration_record import Migration
    from anabranch.views import View

log = logging.getLogger(__name__)
POLL_SECONDS = 15.0
_TIMEOUT_SECONDS = 60 * 24 * 3600.0
"""Maximum seconds at one step: a halted migration waits for a person."""
_EXPECTED = frozenset({"SOAKING", "HALTED", "ROUTE_MOVED", "NOT_MOVING"})
_SHORT_WAIT_SECONDS = 5.0
"""Seconds. A shorter wait is done in the running process, because starting a new one takes longer."""
_SHORT_WAITS_TOTAL = 30.0
"""Total seconds of short waits in one process before it gives its slot free."""


@task(multiple_outputs=True)
def plan_migration() -> dict[str, Any]:
    """Checks the parameters, and shows what the new version still lacks. Writes only the run's note. What is built is
    planned when the new version's stream is level (``WaitUntilCaughtUp``).

    Fails without a retry on a wrong parameter, on a breaking change that nobody declared, or if a migration of the view
    is already active.
    """
    from anabranch.change.migrate.migration import check_start
    from anabranch.change.migrate.promotion_checks import check_declared
    from anabranch.change.run_names import record_run

    context = get_current_context()
    run, settings = context["dag_run"], load_settings()
    with failing(NOTHING_STARTED):
        request, old, new, topics = _request(settings, context["params"])
        check_start(settings, old, new, request.steps, request.soak_seconds)
        check_declared(settings, old, new, request.promise)
        built, shown = _build_plan(settings, old, new, topics)
    text = f"{_plan_text(request.view, old, new, request.steps, request.soak_seconds)}\n{shown}"
    log.info("%s", text)
    tell(settings, run, f"Planned: {text.splitlines()[0]}")
    key = record_run(settings, run)
    both = {"view": request.view, "old": old.version, "new": new.version, "text": text, "run": key}
    return {**built, **both}


def _build_plan(settings: Settings, old: View, new: View, topics: Any) -> tuple[dict[str, Any], str]:
    """Returns the plan of what the new version lacks at landing's newest cut, and its text."""
    from anabranch.change.migrate.migration import days_to_build
    from anabranch.change.reprocess_plan import make_plan
    from anabranch.change.reprocess_request import ReprocessRequest
    from anabranch.views.model.handle import ViewHandle

    days = days_to_build(settings, old, new)
    if not days:
        return {"version": new.version, "partitions": []}, "nothing to build: every day that readers have is certified"
    made = make_plan(ViewHandle(settings, new, topics), ReprocessRequest(tuple(days), {}, explicit=False))
    return made.to_json(), made.to_text()


class WaitUntilCaughtUp(BaseSensorOperator):
    """Waits until the new version's stream has caught up with landing. Holds no slot between checks.

    Then it plans the build, at landing's newest cut. A cut from before the wait, which may take days, would leave out
    late events that landed meanwhile, which neither half of the new version had then, and days that were published.
    """

    template_fields: Sequence[str] = ("planned",)

    def __init__(self, *, planned: Any, **kwargs: Any) -> None:
        super().__init__(mode="reschedule", poke_interval=POLL_SECONDS, timeout=_TIMEOUT_SECONDS, **kwargs)
        self.planned = planned

    def poke(self, context: Context) -> bool | PokeReturnValue:
        from anabranch.change.migrate.promotion_checks import epochs_behind

        settings = load_settings()
        ref = VersionRef(settings, self.planned["view"], self.planned["new"])
        try:
            epochs = epochs_behind(ref)
        except (TryAgain, BadInput) as wait:
            if isinstance(wait, BadInput) and wait.code != "VIEW_UNKNOWN":  # its stream makes its table first
                raise NeedsFix(str(wait)) from None
            self.log.info("%s", wait)
            return False
        self.log.info("%s is %s epochs behind landing", ref, epochs)
        if epochs > context["params"]["behind"]:
            return False
        with failing(NOTHING_STARTED):
            _, old, new, topics = _request(settings, context["params"], self.planned)
            built, shown = _build_plan(settings, old, new, topics)
        self.log.info("%s", shown)
        kept = {name: self.planned[name] for name in ("view", "old", "new", "run")}
        return PokeReturnValue(True, {**built, **kept, "text": f"{_headline(self.planned)}\n{shown}"})


class BuildApproval(PlanApproval):
    """Asks for approval of a large rebuild. Skipped, with the build's tasks, if there is nothing to build."""

    def execute(self, context: Context) -> Any:
        if not self.planned["partitions"]:
            raise AirflowSkipException("nothing to build")
        return super().execute(context)


@task(trigger_rule=TriggerRule.NONE_FAILED)
def compare(planned: dict[str, Any]) -> str:
    """Compares both versions at one cut, and returns a text for the person who approves. Fails without a retry if a
    check fails."""
    from anabranch.certify.compare_versions import compare_versions
    from anabranch.certify.rendering import version_lines
    from anabranch.change.migrate.promotion_checks import failed_checks

    context = get_current_context()
    settings = load_settings()
    with failing():
        request, old, new, _ = _request(settings, context["params"], planned)
        lines = [_headline(planned), ""]
        lines += version_lines(compare_versions(settings, old, new, request.promise.changed))
        wrong = failed_checks(settings, old, new, request.promise)
    text = "\n".join(lines)
    log.info("%s", text)
    if wrong:
        raise NeedsFix(
            f"{request.view} v{new.version} can't take readers: {'; '.join(wrong)}\n"
            "  state: no reader was moved\n"
            "  next:  fix it, or list the columns that are meant to differ or to go under changed columns"
        )
    return text


class MigrationApproval(Approval):
    """Asks for approval of the migration, and shows the comparison of both versions."""

    template_fields: Sequence[str] = (*Approval.template_fields, "compared")
    refused = "no reader was moved"

    def __init__(self, *, compared: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.compared = compared

    def question(self) -> tuple[str, str]:
        plan = self.planned
        return f"Move the readers of {plan['view']} from v{plan['old']} to v{plan['new']}?", self.compared

    def summary(self) -> str:
        return _headline(self.planned)


class ShiftReaders(BaseSensorOperator):
    """Moves readers step by step, one check at a time, until the migration is done. Fails if it was rolled back.

    The first check records the start and who approved it. After a kill, it continues where it was.
    """

    template_fields: Sequence[str] = ("planned",)

    def __init__(self, *, planned: Any, **kwargs: Any) -> None:
        super().__init__(mode="reschedule", poke_interval=POLL_SECONDS, timeout=_TIMEOUT_SECONDS, **kwargs)
        self.planned = planned

    def poke(self, context: Context) -> bool:
        settings, until = load_settings(), time.monotonic() + _SHORT_WAITS_TOTAL
        with failing():
            while True:
                try:
                    migration = self._advance(settings, context)
                except TryAgain as wait:
                    left = wait.fields.get("seconds", POLL_SECONDS)
                    self.log.info("%s", wait)
                    if wait.code not in _EXPECTED:  # a stream is behind, or a check can't be made
                        tell(settings, context["dag_run"], f"{_headline(self.planned)} Waits: {wait.what}")
                    if left > _SHORT_WAIT_SECONDS or time.monotonic() > until:
                        return False
                    time.sleep(left)
                    continue
                self._tell(settings, context, migration)
                if not migration.active:
                    return True

    def _advance(self, settings: Settings, context: Context) -> Migration:
        """Makes one step; returns the final state if the migration has ended."""
        from anabranch.change.migrate.migration import advance, start
        from anabranch.change.migrate.migration_record import of_run
        from anabranch.change.migrate.run_heartbeat import record_heartbeat

        run = self.planned["run"]
        record_heartbeat(settings, self.planned["view"], run)
        request, old, new, _ = _request(settings, context["params"], self.planned)
        known = of_run(settings, request.view, run)
        if known is None:
            by = answered_by(context["ti"].xcom_pull(task_ids="approve") or {})
            return start(
                settings, old, new, by=by, why=request.why, steps=request.steps, soak_seconds=request.soak_seconds,
                promise=request.promise, run=run,
            )  # fmt: skip
        if not known[1].active:
            return known[1]
        try:
            return advance(settings, old, new, by=f"run {context['dag_run'].run_id}")
        except Conflict as conflict:
            if conflict.code not in ("ROUTE_MOVED", "NOT_MOVING"):
                raise
            # A person changed the route first: the next check reads it.
            raise TryAgain(conflict.code, conflict.what, state=conflict.state, next_step="", seconds=0.5) from None

    def _tell(self, settings: Settings, context: Context, migration: Migration) -> None:
        from anabranch.change.migrate.migration_record import of_run

        found = of_run(settings, migration.view, self.planned["run"])
        text = f"{migration}: {found[0].why} (by {found[0].changed_by})" if found else f"{migration}"
        if migration.state == "rolled back":
            raise NeedsFix(
                f"{text}\n  state: all readers have v{migration.old}\n"
                "  next:  fix the reason, and trigger the migration again"
            )
        tell(settings, context["dag_run"], text)


def carry_out_migration() -> None:
    """Wires the tasks plan, level, approve_build, rebuild, publish, compare, approve, move."""
    planned: Any = plan_migration()
    caught_up = WaitUntilCaughtUp(task_id="level", planned=planned)
    to_build: Any = caught_up.output
    build_approved = BuildApproval(task_id="approve_build", planned=to_build, fail_on_reject=True)
    compared = compare(planned)
    approved = MigrationApproval(task_id="approve", planned=planned, compared=compared)
    moved = ShiftReaders(task_id="move", planned=planned)
    planned >> caught_up >> build_approved >> rebuilt(to_build) >> publish(to_build) >> compared >> approved >> moved


def _request(settings: Settings, params: Any, planned: dict[str, Any] | None = None) -> tuple[Any, View, View, Any]:
    """Returns the request, both versions, and what the new one reads. If there is a plan, the versions are those of
    ``planned``: what is served or declared meanwhile doesn't change the plan."""
    from anabranch.change.migrate.migration_record import majority_version
    from anabranch.change.migrate.migration_request import parse_migration_request
    from anabranch.views.project import Project

    request, registry = parse_migration_request(params), Project(settings).readable_views()
    old = planned["old"] if planned else request.old or majority_version(settings, registry.get(request.view).name)
    new = registry.get(request.view, planned["new"] if planned else request.new)
    return request, registry.get(request.view, old), new, registry.topic(new)


def _plan_text(view: str, old: View, new: View, steps: Sequence[int], soak: float) -> str:
    shares = ", ".join(map(str, steps))
    return f"{view} v{old.version} to v{new.version}: {shares} % of the readers, soak time {soak:g} s each."


def _headline(planned: dict[str, Any]) -> str:
    return str(planned["text"]).splitlines()[0]
