"""The tasks of a replay: plan, approval of a large one, the replay itself, its outcome."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

from anabranch.apps.airflow.approval import PlanApproval
from anabranch.apps.airflow.reprocess_tasks import failing, tell
from anabranch.apps.airflow.spark_job import SparkJob
from anabranch.core.settings import load_settings

from airflow.sdk import get_current_context, task
from airflow.sdk.exceptions import AirflowFailException

log = logging.getLogger(__name__)
_LONGEST = timedelta(days=30)
"""A replay with a small share of the cores may take long."""


@task(multiple_outputs=True)
def plan_replay() -> dict[str, Any]:
    """Checks the parameters and makes the plan. Writes only the run's note.

    Fails without a retry on a wrong parameter.
    """
    from anabranch.apps.airflow.run_key import record_run
    from anabranch.change.migration_record import view_of_readers
    from anabranch.change.replay_plan import make_replay_plan
    from anabranch.change.replay_request import parse_replay_parameters, parse_view
    from anabranch.views.project import Project

    context = get_current_context()
    run, params, settings = context["dag_run"], context["params"], load_settings()
    with failing():
        registry = Project(settings).readable_views()
        view = view_of_readers(settings, registry, *parse_view(params))
        topics = registry.topic(view)
        made = make_replay_plan(settings, view, topics, parse_replay_parameters(params, [t.name for t in topics.each]))
    text = made.to_text()
    log.info("%s", text)
    tell(settings, run, f"Planned: {text}")
    estimated = made.estimate.seconds if made.estimate else None
    return {
        **made.to_json(), "text": text, "run": record_run(settings, run), "estimated": estimated,
    }  # fmt: skip


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
    from anabranch.change.replay.state import PUBLISHED, read_state

    run, settings = get_current_context()["dag_run"], load_settings()
    with failing():
        ended = read_state(settings, planned["view"], planned["version"], planned["run"])
    if ended is None or not ended.ended:
        raise AirflowFailException("the replay has not recorded its end. Next: clear its task to continue it")
    tell(settings, run, f"Replayed {ended}")
    if ended.phase != PUBLISHED:
        raise AirflowFailException(f"{ended.phase}: {ended.said}")
    return ended.said


def carry_out_replay() -> None:
    """Wires the tasks plan_replay, approve (a large one), replay, outcome."""
    planned: Any = plan_replay()
    approved = ReplayApproval(task_id="approve", planned=planned)
    options = ("fingerprint", "days", "until", "share", "speed", "estimated", "source")
    replayed = SparkJob(
        task_id="replay", planned=planned, options=options, execution_timeout=_LONGEST, max_active_tis_per_dag=None
    )
    planned >> approved >> replayed >> outcome(planned)
