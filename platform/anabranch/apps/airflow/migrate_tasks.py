"""The steps of a migration inside Airflow: what is missing is built, a person looks at it, readers move.

Where a migration stands is in the view's route and nowhere else (ADR 0016): each of these steps may be killed and
repeated.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from anabranch.apps.airflow.approval import Approval, PlanApproval, answered_by
from anabranch.apps.airflow.reprocess_tasks import failing, publish, tell
from anabranch.apps.airflow.spark_job import rebuilt
from anabranch.core.errors import BadInput, Conflict, TryAgain
from anabranch.core.settings import Settings, load_settings

from airflow.sdk import BaseSensorOperator, TriggerRule, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

if TYPE_CHECKING:
    from anabranch.change.migration import Migration
    from anabranch.views.definition import View

    from airflow.sdk import Context

log = logging.getLogger(__name__)
LOOK_SECONDS = 15.0
_PATIENCE = 60 * 24 * 3600.0
"""Seconds that readers may wait at one step: a halted migration waits for a person."""
_EXPECTED = frozenset({"SOAKING", "HALTED", "ROUTE_MOVED", "NOT_MOVING"})
_AT_ONCE = 5.0
"""A wait that is shorter than this is waited for in place: a new process takes longer."""
_IN_PLACE = 30.0
"""So many seconds of short waits one process spends, before it gives its slot away."""


@task(multiple_outputs=True)
def plan_migration() -> dict[str, Any]:
    """Check the parameters, and plan what of the new version is still to be built. Nothing is written but a note.

    Fails at once, without a retry, on a wrong parameter, or when readers of the view are being moved already.
    """
    from anabranch.apps.airflow.run_key import run_key
    from anabranch.change.migration import check_start, days_to_build
    from anabranch.change.reprocess_plan import make_plan
    from anabranch.change.reprocess_request import ReprocessRequest

    context = get_current_context()
    run, settings = context["dag_run"], load_settings()
    with failing():
        wish, old, new, topics = _asked(settings, context["params"])
        check_start(settings, old, new, wish.steps, wish.soak_seconds)
        days = days_to_build(settings, old, new)
        built = make_plan(settings, new, topics, ReprocessRequest(tuple(days), {}, explicit=False)) if days else None
    text = _plan_text(wish.view, old, new, wish.steps, wish.soak_seconds)
    text += f"\n{built.to_text()}" if built else "\nnothing is to be built: every day that readers have is certified"
    log.info("%s", text)
    tell(settings, run, f"Planned: {text.splitlines()[0]}")
    key = run_key(run.run_id, run.clear_number or 0)
    both = {"view": wish.view, "old": old.version, "new": new.version, "text": text, "run": key}
    return {**(built.to_json() if built else {"version": new.version, "partitions": []}), **both}


class WaitUntilCaughtUp(BaseSensorOperator):
    """Waits until the stream of the new version runs level with landing. Looks again later, without holding a slot."""

    template_fields: Sequence[str] = ("planned",)

    def __init__(self, *, planned: Any, **kwargs: Any) -> None:
        super().__init__(mode="reschedule", poke_interval=LOOK_SECONDS, timeout=_PATIENCE, **kwargs)
        self.planned = planned

    def poke(self, context: Context) -> bool:
        from anabranch.change.promotion_checks import epochs_behind

        settings, view, version = load_settings(), self.planned["view"], self.planned["new"]
        try:
            epochs = epochs_behind(settings, view, version)
        except (TryAgain, BadInput) as wait:
            self.log.info("%s", wait)
            return False
        self.log.info("%s v%s is %s epochs behind landing", view, version, epochs)
        return bool(epochs <= context["params"]["behind"])


class BuildApproval(PlanApproval):
    """As before every large rebuild. Skipped, with the steps of the build, where nothing is to be built."""

    def execute(self, context: Context) -> Any:
        if not self.planned["partitions"]:
            raise AirflowSkipException("nothing is to be built")
        return super().execute(context)


@task(trigger_rule=TriggerRule.NONE_FAILED)
def compare(planned: dict[str, Any]) -> str:
    """Both versions at one cut, in words for the person who approves. Fails, without a retry, when a check fails."""
    from anabranch.certify.compare_versions import compare_versions
    from anabranch.certify.rendering import version_lines
    from anabranch.change.promotion_checks import failed_checks as gates

    context = get_current_context()
    run, settings = context["dag_run"], load_settings()
    with failing():
        wish, old, new, _ = _asked(settings, context["params"], planned)
        lines = [_headline(planned), ""]
        lines += version_lines(compare_versions(settings, old, new, wish.promise.changed))
        wrong = gates(settings, old, new, wish.promise)
    text = "\n".join(lines)
    log.info("%s", text)
    if wrong:
        tell(settings, run, f"{wish.view} v{new.version} can't take readers: {'; '.join(wrong)}")
        raise AirflowFailException(
            f"v{new.version} can't take readers: {'; '.join(wrong)}. Nobody was moved. Next: mend it, or name what is "
            "meant to differ under changed columns"
        )
    return text


class MigrationApproval(Approval):
    """A person approves, with the comparison of both versions before their eyes."""

    template_fields: Sequence[str] = (*Approval.template_fields, "compared")
    refused = "nobody was moved"

    def __init__(self, *, compared: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.compared = compared

    def question(self) -> tuple[str, str]:
        plan = self.planned
        return f"Lead the readers of {plan['view']} from v{plan['old']} to v{plan['new']}?", self.compared

    def summary(self) -> str:
        return _headline(self.planned)


class ShiftReaders(BaseSensorOperator):
    """Leads readers over, one look after the other, until the migration is done; fails when it was rolled back.

    The first look writes down that it begins, approved by whoever has approved it. A killed one goes on.
    """

    template_fields: Sequence[str] = ("planned",)

    def __init__(self, *, planned: Any, **kwargs: Any) -> None:
        super().__init__(mode="reschedule", poke_interval=LOOK_SECONDS, timeout=_PATIENCE, **kwargs)
        self.planned = planned

    def poke(self, context: Context) -> bool:
        settings, until = load_settings(), time.monotonic() + _IN_PLACE
        with failing():
            while True:
                try:
                    made = self._look(settings, context)
                except TryAgain as wait:
                    left = wait.fields.get("seconds", LOOK_SECONDS)
                    self.log.info("%s", wait)
                    if wait.code not in _EXPECTED:  # a stream is behind, or a check can't be made
                        tell(settings, context["dag_run"], f"{_headline(self.planned)} Waits: {wait.what}")
                    if left > _AT_ONCE or time.monotonic() > until:
                        return False
                    time.sleep(left)
                    continue
                self._tell(settings, context, made)
                if not made.active:
                    return True

    def _look(self, settings: Settings, context: Context) -> Migration:
        """One step; or what became of the migration, when it has ended."""
        from anabranch.change.migration import advance, of_run, start
        from anabranch.change.run_heartbeat import record_heartbeat

        run = self.planned["run"]
        record_heartbeat(settings, self.planned["view"], run)
        wish, old, new, _ = _asked(settings, context["params"], self.planned)
        known = of_run(settings, wish.view, run)
        if known is None:
            by = answered_by(context["ti"].xcom_pull(task_ids="approve") or {})
            return start(
                settings, old, new, by=by, why=wish.why, steps=wish.steps, soak_seconds=wish.soak_seconds,
                promise=wish.promise, run=run,
            )  # fmt: skip
        if not known[1].active:
            return known[1]
        try:
            return advance(settings, old, new, by=f"run {run}")
        except Conflict as conflict:
            if conflict.code not in ("ROUTE_MOVED", "NOT_MOVING"):
                raise
            # A person was faster: what they did is seen at the next look.
            raise TryAgain(conflict.code, conflict.what, state=conflict.state, next_step="", seconds=0.5) from None

    def _tell(self, settings: Settings, context: Context, made: Migration) -> None:
        from anabranch.change.migration import of_run

        found = of_run(settings, made.view, self.planned["run"])
        text = f"{made}: {found[0].why} (by {found[0].changed_by})" if found else f"{made}"
        tell(settings, context["dag_run"], text)
        if made.state == "rolled back":
            raise AirflowFailException(f"{text}. All readers have v{made.old}. Next: see why, and trigger it again")


def carry_out_migration() -> None:
    """plan, level, approve_build, rebuild, publish, compare, approve, move."""
    planned: Any = plan_migration()
    level = WaitUntilCaughtUp(task_id="level", planned=planned)
    allowed = BuildApproval(task_id="approve_build", planned=planned, fail_on_reject=True)
    compared = compare(planned)
    approved = MigrationApproval(task_id="approve", planned=planned, compared=compared)
    moved = ShiftReaders(task_id="move", planned=planned)
    planned >> level >> allowed >> rebuilt(planned) >> publish(planned) >> compared >> approved >> moved


def _asked(settings: Settings, params: Any, planned: dict[str, Any] | None = None) -> tuple[Any, View, View, Any]:
    """The wish, both versions, and what the new one reads. The versions are those of ``planned``, once there is a
    plan: what is served or declared by now doesn't change what was planned."""
    from anabranch.change.migration import majority_version
    from anabranch.change.migration_request import parse_migration_request
    from anabranch.views.project import Project

    wish, registry = parse_migration_request(params), Project(settings).readable_views()
    old = planned["old"] if planned else wish.old or majority_version(settings, registry.get(wish.view).name)
    new = registry.get(wish.view, planned["new"] if planned else wish.new)
    return wish, registry.get(wish.view, old), new, registry.topic(new)


def _plan_text(view: str, old: View, new: View, steps: Sequence[int], soak: float) -> str:
    shares = ", ".join(map(str, steps))
    return f"{view} v{old.version} to v{new.version}: {shares} % of the readers, {soak:g} s of soaking each."


def _headline(planned: dict[str, Any]) -> str:
    return str(planned["text"]).splitlines()[0]
