"""The tasks of a kappa view's reprocess DAG: plan, replay if that is asked for, certify, judge."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import TriggerRule, get_current_context, task
from airflow.sdk.exceptions import AirflowSkipException

from anabranch.apps.airflow._approval import PlanApproval
from anabranch.apps.airflow._replay_tasks import LONGEST, REPLAY_OPTIONS, ReplayJob, outcome
from anabranch.apps.airflow._reprocess_tasks import NOTHING_STARTED, REQUESTED, failing, nothing_to_do, tell
from anabranch.apps.airflow._retry_policy import NeedsFix
from anabranch.apps.airflow._spark_job import SparkJob
from anabranch.apps.airflow.links import CertificatesLink, ChecksLink
from anabranch.core.settings import Settings, load_settings
from anabranch.lake.layout import VersionRef

if TYPE_CHECKING:
    from airflow.sdk import BaseOperatorLink, Context

    from anabranch.change.certify_plan import CertifyPlan
    from anabranch.views.model.handle import ViewHandle

log = logging.getLogger(__name__)


@task(multiple_outputs=True)
def plan(view_name: str, own_version: int) -> dict[str, Any]:
    """Checks the parameters, and counts the events. Writes only the run's note.

    Fails without a retry on a wrong parameter. A scheduled run, and one of a backfill, certifies ``own_version``; it is
    skipped if that is certified already, has no rows yet, or is so large that a person decides.
    """
    from anabranch.change.certify_plan import make_certify_plan
    from anabranch.change.request_fields import flag
    from anabranch.change.run_names import record_run
    from anabranch.core.errors import TryAgain
    from anabranch.views.project import Project

    context = get_current_context()
    run, params, settings = context["dag_run"], context["params"], load_settings()
    asked = run.run_type in REQUESTED - {"backfill"}  # each run of a backfill would do the same
    with failing(NOTHING_STARTED):
        view = Project(settings).view(view_name, params.get("version") if asked else own_version)
        try:
            made = make_certify_plan(view)
        except TryAgain as early:
            if asked:
                raise
            nothing_to_do(settings, run, early.what)
        if not asked:
            _skip_if_needless(settings, run, made)
        replayed = _replay(view, params) if asked and flag(params, "replay") else {}
    text = made.to_text() if not replayed else f"{replayed['text']}\nthen {made.to_text()}"
    planned = {**made.to_json(), "run": record_run(settings, run), **replayed, "text": text, "replay": bool(replayed)}
    tell(settings, run, f"Planned: {text}")
    return planned


def _replay(view: ViewHandle, params: Any) -> dict[str, Any]:
    """The plan of the replay: whole, up to the newest cut, from landing."""
    from anabranch.change.replay_plan import make_replay_plan
    from anabranch.change.replay_request import parse_replay_parameters

    made = make_replay_plan(view, parse_replay_parameters({"share": params.get("share")}, ()))
    return {**made.to_json(), "text": made.to_text(), "estimated": made.estimate.seconds}


def _skip_if_needless(settings: Settings, run: Any, made: CertifyPlan) -> None:
    from anabranch.certify.certificates import newest_certificates

    name = f"{made.view} v{made.version}"
    known = newest_certificates(VersionRef(settings, made.view, made.version)).get(None)
    if known is not None and known.equal and known.cut == made.cut and known.fingerprint == made.fingerprint:
        nothing_to_do(settings, run, f"{name} is certified at {made.cut}, where its stream still is")
    if made.events > (limit := settings.approval_events):
        many = f"{name} has {made.events:,} events, and more than {limit:,} need a person"
        command = f"anabranch certify {made.view} --version {made.version}"
        nothing_to_do(settings, run, f"{many}: trigger this DAG, or {command}")


class CertifyApproval(PlanApproval):
    """Asks for approval of a large certification or replay."""

    refused = "nothing was replayed or certified"

    def question(self) -> tuple[str, str]:
        plan, limit = self.planned, load_settings().approval_events
        text = f"More than {limit:,} events need a person's approval.\n\n{plan['text']}"
        what = "replay and certify" if plan["replay"] else "certify"
        return f"{plan['view']} v{plan['version']}: {what} the whole view, {plan['events']:,} events", text

    def summary(self) -> str:
        return f"Planned: {self.planned['text']}"


class ReplayIfAsked(ReplayJob):
    """The replay, if the plan has one; else skipped."""

    def execute(self, context: Context) -> None:
        if not self.planned["replay"]:
            self.log.info("no replay was asked for")  # the text of a skip isn't in the task's log
            raise AirflowSkipException("no replay was asked for")
        super().execute(context)


class CertifyJob(SparkJob):
    """Compares the live table, and stores the certificate and the verdict."""

    operator_extra_links: Sequence[BaseOperatorLink] = (CertificatesLink(), ChecksLink())


@task
def judge(planned: dict[str, Any]) -> str:
    """Writes the result to the run's note. Fails without a retry if the table differs, or a check has failed."""
    from anabranch.apps.airflow.links import verdict_page
    from anabranch.certify.verdict import read_verdict
    from anabranch.change.certify_run import certified_by
    from anabranch.change.publish_run import write_data_docs
    from anabranch.change.replay.state import read_state

    run, settings = get_current_context()["dag_run"], load_settings()
    ref, key = VersionRef(settings, planned["view"], planned["version"]), planned["run"]
    with failing():
        found = certified_by(settings, read_verdict(ref, key))
    replayed = read_state(ref, key) if planned["replay"] else None
    write_data_docs(settings, planned)
    lines = [found.text, *([f"Replayed {replayed}"] if replayed else []), f"Checks: {verdict_page(planned)}#checks"]
    note = "\n".join(lines)
    if not found.equal:
        log.error("%s", found.verdict.report)
        raise NeedsFix(
            f"{planned['view']} v{planned['version']} is not certified at {found.verdict.cut}\n"
            "  state: readers keep what they have, and the stream goes on; nothing was changed\n"
            f"  next:  {found.next_step}, or this DAG with Replay it first",
            f"{note}\n{_rows(found.verdict.report)}",
        )
    tell(settings, run, note)
    return found.text


def _rows(report: str) -> str:
    """The report's rows without its frames: a note holds 1,000 characters."""
    cells = ([cell.strip() for cell in line.strip("┃│").replace("┃", "│").split("│")] for line in report.splitlines())
    return "\n".join(" | ".join(row) for row in cells if len(row) > 1)


def certify_steps(view: str, version: int) -> None:
    """Wires the tasks plan, approve (large ones), replay and replayed (if asked for), certify, judge."""
    planned: Any = plan(view, version)
    # ``certify`` runs whatever was skipped before it, but not after a rejection.
    approved = CertifyApproval(task_id="approve", planned=planned, ignore_downstream_trigger_rules=True)
    again = ReplayIfAsked(
        task_id="replay",
        planned=planned,
        options=REPLAY_OPTIONS,
        execution_timeout=LONGEST,
        max_active_tis_per_dag=None,
    )
    ended = outcome.override(task_id="replayed")(planned)
    # Also if no replay was asked for; not if the plan was skipped.
    compared = CertifyJob(
        task_id="certify",
        planned=planned,
        options=("fingerprint",),
        trigger_rule=TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS,
    )
    planned >> approved >> again >> ended >> compared >> judge(planned)
