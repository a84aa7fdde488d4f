"""The tasks of a reprocess that need no Spark: plan before, publish after. Each is safe to repeat."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, Never

from airflow.sdk import get_current_context, task
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowSkipException

from anabranch.apps.airflow._retry_policy import NeedsFix
from anabranch.core.errors import AnabranchError, BrokenState, TryAgain, may_be_repeated
from anabranch.core.settings import Settings, load_settings

if TYPE_CHECKING:
    from anabranch.change.reprocess_plan import Plan

log = logging.getLogger(__name__)
REQUESTED = frozenset({"manual", "backfill", "operator_triggered"})
"""Types of runs that a person or a program asked for."""
NOTHING_STARTED = "nothing was started"


@task(multiple_outputs=True)
def plan(view_name: str, own_version: int | None = None) -> dict[str, Any]:
    """Checks the parameters, fixes the cut, and counts the work. Writes only the run's note.

    A run that nobody asked for builds ``own_version``: each version has a DAG, and its schedule keeps it up to date.

    Fails without a retry on a wrong parameter. Skipped if there is nothing to do in a run whose days were not
    requested explicitly; if nobody asked for the run, also while nothing has landed at all.
    """
    from anabranch.change.reprocess_plan import make_plan
    from anabranch.change.reprocess_request import parse_reprocess_request
    from anabranch.ingest.landing.epoch_pacing import run_first
    from anabranch.views.project import Project

    context = get_current_context()
    run, params, settings = context["dag_run"], context["params"], load_settings()
    asked = run.run_type in REQUESTED
    with failing(NOTHING_STARTED), run_first(settings):
        view = Project(settings).view(view_name, params.get("version") if asked else own_version)
        request = parse_reprocess_request(params, [t.name for t in view.topics.each], own_day(run))
        try:
            made = make_plan(view, request)
        except TryAgain as early:
            if asked or early.code != "LANDING_EMPTY":
                raise
            nothing_to_do(settings, run, early.what)
    if made.missing is not None and not made.partitions:
        nothing_to_do(settings, run, made.to_text())
    if made.empty:
        log.info("%s", made.to_text())
        nothing_to_do(settings, run, f"no events have landed for {made.span} of {view_name}")
    return _planned(settings, run, made)


@task(multiple_outputs=True)
def plan_repair(view_name: str, version: int) -> dict[str, Any]:
    """Finds the published days of this version for which more events have landed since, and plans exactly these at the
    newest cut.

    Skipped if there are none. Days of events that land from now on stay dirty: the next run repairs them.
    """
    from anabranch.change.dirty_partitions import dirty_partitions
    from anabranch.change.reprocess_plan import make_plan
    from anabranch.change.reprocess_request import ReprocessRequest
    from anabranch.compute.batch.missing_days import missing_now
    from anabranch.views.project import Project
    from anabranch.views.retired_versions import retired_versions

    run, settings = get_current_context()["dag_run"], load_settings()
    with failing(NOTHING_STARTED):
        view = Project(settings).view(view_name, version)
        if view.version in retired_versions(settings, view.name):
            nothing_to_do(settings, run, f"{view.name} v{view.version} is retired and has no readers")
        never = missing_now(view).never_published
        if never:
            said = (
                f"{len(never)} days of {view_name} with late events were never published, {min(never)} to {max(never)}"
            )
            command = f"anabranch reprocess {view_name} --version {version} --missing"
            log.warning("%s: they are not repaired; %s publishes them", said, command)
        dirty = dirty_partitions(view)
        if not dirty:
            left = f". {said}: {command} publishes them" if never else ""
            nothing_to_do(
                settings, run, f"every published day of {view_name} includes everything that has landed for it{left}"
            )
        days = tuple(day.partition for day in dirty)
        made = make_plan(view, ReprocessRequest(days, {}, explicit=False))
    for day in dirty:
        log.info("%s: %d events (%d late) since it was published at %s", day.partition, day.events, day.late, day.at)
    return _planned(settings, run, made)


def _planned(settings: Settings, run: Any, made: Plan) -> dict[str, Any]:
    """Writes the plan to the run's note, and returns it for the following tasks."""
    from anabranch.apps.airflow._assets import downstream_dags
    from anabranch.apps.airflow._run_notes import planned_note
    from anabranch.change.run_names import record_run

    waiting = downstream_dags(settings, made.view)
    text = made.to_text() + (
        f"\nthen starts {', '.join(waiting)}, by an event when it has published" if waiting else ""
    )
    planned = {**made.to_json(), "text": text, "run": record_run(settings, run), "downstream": waiting}
    log.info("%s", text)
    tell(settings, run, planned_note(planned))
    return planned


def tell(settings: Settings, run: Any, text: str) -> None:
    """Logs the text, and makes it the run's note."""
    from anabranch.apps.airflow._run_notes import write_note

    log.info("%s", text)
    write_note(settings, api_address(settings), run.dag_id, run.run_id, text)


def nothing_to_do(settings: Settings, run: Any, why: str) -> Never:
    """Says so in the run's note, and skips this task and those after it. The run is a success."""
    tell(settings, run, f"Nothing to do: {why}")
    raise AirflowSkipException(why)


@task
def publish(planned: dict[str, Any]) -> dict[str, Any]:
    """Publishes the certified partitions of this run's build in one commit, and writes the result to the run's note.

    Fails without a retry if partitions could not be published; the others are still published. The Data Docs are
    written afterwards in any case, so that readers don't wait for them.
    """
    from anabranch.change.publish_run import write_data_docs

    context, settings = get_current_context(), load_settings()
    run = context["dag_run"]
    # Its outlets show who produces the view. Airflow's own event for them is replaced (``_assets``).
    context["task"].outlets = []
    try:
        return _publish(settings, run, planned)
    finally:
        write_data_docs(settings, planned)


def _publish(settings: Settings, run: Any, planned: dict[str, Any]) -> dict[str, Any]:
    from anabranch.apps.airflow._assets import announce
    from anabranch.apps.airflow._run_notes import costs_text, days_listed, outcome_note
    from anabranch.apps.airflow.links import verdict_page
    from anabranch.change.estimates import outcomes
    from anabranch.change.publish_run import publish_run, save_outcome
    from anabranch.ingest.landing.epoch_pacing import run_first
    from anabranch.lake.layout import VersionRef

    with failing(), run_first(settings):
        outcome = publish_run(settings, planned)
    outcome = save_outcome(settings, planned, outcome, _began(run))
    outcome["costs"] = costs_text(outcomes(VersionRef(settings, planned["view"], planned["version"])))
    facts = {name: planned[name] for name in ("view", "version", "cut", "run")}
    announce(settings, planned["view"], outcome["published"], facts, run.run_after)
    note = outcome_note(planned, outcome, f"{verdict_page(planned)}#checks")
    if outcome["refused"]:
        raise NeedsFix(
            f"{len(outcome['refused'])} of {len(planned['partitions'])} partitions were not published: "
            f"{days_listed(outcome['refused'])}\n"
            f"  state: published: {len(outcome['published'])}; for the others readers keep what they had\n"
            f"  next:  anabranch differences {planned['view']} --version {planned['version']} --partition DAY",
            note,
        )
    tell(settings, run, note)
    return outcome


def _began(run: Any) -> datetime:
    """When the rebuild began: before it the run may have waited days for a person, which no estimate should include."""
    found = get_current_context()["ti"].xcom_pull(task_ids="rebuild", key="began")
    moment: datetime = datetime.fromisoformat(found) if found else run.start_date or run.run_after
    return moment


def hitl_detail(settings: Settings, dag_id: str, run_id: str, task_id: str) -> dict[str, Any] | None:
    """Returns the question and the answer of a task that waits for a person; None if it has never asked, as Airflow
    says with 404. Raises what the client raises otherwise."""
    from anabranch.apps.airflow.client import Client
    from anabranch.operate.runtime.secret_files import airflow_login

    with Client(api_address(settings), airflow_login(settings)) as client:
        try:
            return client.hitl_detail(dag_id, run_id, task_id)
        except BrokenState as refused:
            if refused.fields.get("status") != 404:
                raise
            return None


def own_day(run: Any) -> date:
    """The partition of a run without parameters: its partition key, else its date (UTC)."""
    if run.partition_key:
        with failing():
            return _day_of(run.partition_key)
    moment: datetime = run.logical_date or run.run_after
    return moment.astimezone(UTC).date()


def _day_of(key: str) -> date:
    from anabranch.core.errors import BadInput

    try:
        return date.fromisoformat(key[:10])
    except ValueError:
        raise BadInput(
            "PARTITION_KEY",
            f"partition key {key[:60]!r} is not a day",
            next_step="write 2013-01-31",
            field="partition_key",
        ) from None


def api_address(settings: Settings) -> str:
    """The API's address for a task. It may differ from the UI's address, which is for browsers."""
    found: str = settings.airflow_url or conf.get("api", "base_url", fallback="http://127.0.0.1:8080")
    return found.rstrip("/")


@contextmanager
def failing(state: str = "") -> Iterator[None]:
    """Errors that a retry can't fix fail the task without retries, with their full text; others are retried.

    ``state``: what is true if an error doesn't say it.
    """
    try:
        yield
    except AnabranchError as error:
        if may_be_repeated(error):
            raise
        error.state = error.state or state
        raise NeedsFix(str(error)) from None
