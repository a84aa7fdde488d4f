"""The tasks of a replay: plan, approval of a large one, the replay itself, its outcome."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import get_current_context, task

from anabranch.apps.airflow._approval import PlanApproval
from anabranch.apps.airflow._reprocess_tasks import NOTHING_STARTED, failing, tell
from anabranch.apps.airflow._retry_policy import NeedsFix
from anabranch.apps.airflow._spark_job import SparkJob
from anabranch.core.settings import load_settings
from anabranch.lake.layout import VersionRef

LONGEST = timedelta(days=30)
"""A replay with a small share of the cores may take long."""
REPLAY_OPTIONS = ("fingerprint", "days", "until", "share", "speed", "estimated", "source")
"""What the job takes from its plan."""


@task(multiple_outputs=True)
def plan_replay() -> dict[str, Any]:
    """Checks the parameters and makes the plan. Writes only the run's note.

    Fails without a retry on a wrong parameter.
    """
    from anabranch.apps.airflow._assets import downstream_dags
    from anabranch.change.migrate.migration_record import view_of_readers
    from anabranch.change.replay_plan import make_replay_plan
    from anabranch.change.replay_request import parse_replay_parameters, parse_view
    from anabranch.change.run_names import record_run
    from anabranch.views.project import Project

    context = get_current_context()
    run, params, settings = context["dag_run"], context["params"], load_settings()
    with failing(NOTHING_STARTED):
        registry = Project(settings).readable_views()
        view = view_of_readers(settings, registry, *parse_view(params))
        made = make_replay_plan(view, parse_replay_parameters(params, [t.name for t in view.topics.each]))
    waiting = downstream_dags(settings, view.name)
    text = made.to_text() + (f"\nthen starts {', '.join(waiting)}" if waiting else "")
    tell(settings, run, f"Planned: {text}")
    estimated = made.estimate.seconds
    return {
        **made.to_json(), "text": text, "run": record_run(settings, run), "estimated": estimated,
    }  # fmt: skip


class ReplayJob(SparkJob):
    """The replay. Landing doesn't yield to it: it takes its small share of the cores for days, and the live stream
    stays as fresh."""

    goes_first = False
    ends_soon = False


class ReplayApproval(PlanApproval):
    """Asks for approval of a large replay."""

    refused = "nothing was replayed"

    def question(self) -> tuple[str, str]:
        plan, limit = self.planned, load_settings().approval_events
        text = f"More than {limit:,} events need a person's approval.\n\n{plan['text']}"
        return f"{plan['view']} v{plan['version']}: replay {plan['what']}, {plan['events']:,} events", text

    def summary(self) -> str:
        return f"Planned: {self.planned['text']}"


@task
def outcome(planned: dict[str, Any]) -> str:
    """Returns how the replay ended. Fails without a retry if nothing was published."""
    from anabranch.apps.airflow._assets import announce
    from anabranch.change.replay.state import PUBLISHED, read_state
    from anabranch.compute.batch.manifest import parse_days

    run, settings = get_current_context()["dag_run"], load_settings()
    with failing():
        ended = read_state(VersionRef(settings, planned["view"], planned["version"]), planned["run"])
    if ended is None or not ended.ended:
        raise NeedsFix("the replay has not recorded its end\n  next:  clear its task to continue it")
    if ended.phase != PUBLISHED:
        status = f"anabranch replay status {planned['view']} --version {planned['version']}"
        raise NeedsFix(f"{ended.phase}: {ended.said}\n  next:  {status}", str(ended))
    days = [day.isoformat() for day in parse_days(ended.days)] if ended.days else [None]
    facts = {"view": planned["view"], "version": planned["version"], "cut": str(ended.cut), "run": planned["run"]}
    announce(settings, planned["view"], days, facts, run.run_after)
    tell(settings, run, f"Replayed {ended}")
    return ended.said


def carry_out_replay() -> None:
    """Wires the tasks plan_replay, approve (a large one), replay, outcome."""
    planned: Any = plan_replay()
    approved = ReplayApproval(task_id="approve", planned=planned)
    limits = {"execution_timeout": LONGEST, "max_active_tis_per_dag": None}
    replayed = ReplayJob(task_id="replay", planned=planned, options=REPLAY_OPTIONS, **limits)
    planned >> approved >> replayed >> outcome(planned)
