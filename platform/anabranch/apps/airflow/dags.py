"""Builds the DAGs of a project, with one function per kind. A project's files in ``dags/`` call these functions, or
``project_dags`` for all DAGs.

Parsing reads the declarations from source (``static_views``): it runs no author's code and opens no socket.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from airflow.sdk import (
    DAG,
    Asset,
    AssetOrTimeSchedule,
    CronPartitionTimetable,
    CronTriggerTimetable,
    DeltaTriggerTimetable,
    Param,
)

from anabranch.apps.airflow._certify_form import certify_documentation, certify_parameters
from anabranch.apps.airflow._certify_tasks import certify_steps
from anabranch.apps.airflow._current_version import not_retired
from anabranch.apps.airflow._load_tasks import carry_out_load
from anabranch.apps.airflow._maintain_tasks import maintain
from anabranch.apps.airflow._migrate_tasks import carry_out_migration
from anabranch.apps.airflow._params import (
    LOAD,
    MAINTENANCE,
    MIGRATION,
    REPLAY,
    RETIREMENT,
    documentation,
    load_parameters,
    migration_parameters,
    parameters,
    repair_documentation,
    replay_parameters,
    retirement_parameters,
)
from anabranch.apps.airflow._replay_tasks import carry_out_replay
from anabranch.apps.airflow._reprocess_tasks import plan, plan_repair
from anabranch.apps.airflow._retire_tasks import carry_out_retirement
from anabranch.apps.airflow._retry_policy import DEFAULT_ARGS, run_failed
from anabranch.apps.airflow._spark_job import reprocess_steps
from anabranch.apps.airflow.static_views import Declared, declared_views
from anabranch.core.settings import load_settings


def project_views() -> dict[str, list[Declared]]:
    """Returns the declared versions of each view of this project, newest first, without those that are retired."""
    settings = load_settings()
    found = {name: not_retired(settings, versions) for name, versions in declared_views(settings.views_folder).items()}
    return {name: versions for name, versions in found.items() if versions}


def project_dags() -> dict[str, DAG]:
    """Returns all DAGs of this project by id, for ``globals().update(project_dags())``."""
    views = project_views()
    made = [*reprocess_dags(views), *repair_dags(views), replay_dag(views), migrate_dag(views), retire_dag(views)]
    return {dag.dag_id: dag for dag in [*made, load_dag(), maintain_dag()]}


def reprocess_dags(views: Mapping[str, Sequence[Declared]]) -> list[DAG]:
    """Returns one DAG per version of each view: ``reprocess_VIEW`` for the newest, ``reprocess_VIEW.v1`` for an older
    one, which is updated as long as it is declared. That of a kappa view certifies its live table, and replays it on
    request.

    The form of ``reprocess_VIEW`` begins with the version that most readers have."""
    return [
        _certify(view, versions) if view.kappa else _reprocess(view, versions)
        for versions in views.values()
        for view in versions
    ]


def _offered(view: Declared, versions: Sequence[Declared]) -> list[Declared]:
    """The versions of ``view``'s kind for its form, the default first."""
    same = [each for each in versions if each.kappa == view.kappa]
    first = next((each for each in same if each.current and view.newest), view)
    return [first, *(other for other in same if other is not first)]


def _certify(view: Declared, versions: Sequence[Declared]) -> DAG:
    """The DAG of a kappa view. A scheduled run certifies, if there is anything new."""
    offered = _offered(view, versions)
    with DAG(
        dag_id=f"reprocess_{view.title}",
        dag_display_name=f"Reprocess {view.title}",
        description=f"certify the rows of {view.title}; replay them first, if asked to",
        schedule=CronTriggerTimetable("0 1 * * *", timezone="UTC"),
        catchup=False,
        max_active_runs=8,
        params=certify_parameters(offered),
        doc_md=certify_documentation(offered),
        tags=["reprocess", *view.events],
        default_args=dict(DEFAULT_ARGS),
        on_failure_callback=run_failed,
    ) as dag:
        certify_steps(view.name, view.version)
    return dag


def _reprocess(view: Declared, versions: Sequence[Declared]) -> DAG:
    """The DAG of one of ``versions``; its form offers the others, too.

    A scheduled run takes the day before yesterday, because on-time events of yesterday may still arrive.
    """
    offered = _offered(view, versions)
    with DAG(
        dag_id=f"reprocess_{view.title}",
        dag_display_name=f"Reprocess {view.title}",
        description=f"plan, rebuild, certify and publish days of {view.title}",
        schedule=CronPartitionTimetable("0 0 * * *", timezone="UTC", run_offset=-2, key_format="%Y-%m-%d"),
        catchup=False,
        # A run may wait days for a person's approval; others must run meanwhile.
        max_active_runs=8,
        params=parameters(offered),
        doc_md=documentation(offered),
        tags=["reprocess", *view.events],
        default_args=dict(DEFAULT_ARGS),
        on_failure_callback=run_failed,
    ) as dag:
        reprocess_steps(plan(view.name, view.version), view.name)
    return dag


def repair_dags(views: Mapping[str, Sequence[Declared]]) -> list[DAG]:
    """Returns one DAG per version of each view with partitions, which rebuilds published days for which events have
    landed since.

    Each run takes the days that are dirty when it plans, and is skipped if there are none. It runs every hour, and
    when the view's asset is updated, for example by a DAG that has loaded late events.
    """
    return [_repair(view) for versions in views.values() for view in versions if not view.kappa]


def _repair(view: Declared) -> DAG:
    with DAG(
        dag_id=f"repair_{view.title}",
        dag_display_name=f"Repair {view.title}",
        description=f"rebuild the published days of {view.title} for which more events have landed",
        schedule=AssetOrTimeSchedule(
            timetable=DeltaTriggerTimetable(timedelta(hours=1)),
            assets=Asset(f"late_events_of_{view.name}", uri=f"anabranch://views/{view.name}/late-events"),
        ),
        catchup=False,
        max_active_runs=1,
        doc_md=repair_documentation(view),
        tags=["repair", *view.events],
        default_args=dict(DEFAULT_ARGS),
        on_failure_callback=run_failed,
    ) as dag:
        reprocess_steps(plan_repair(view.name, view.version), view.name)
    return dag


def replay_dag(views: Mapping[str, Sequence[Declared]]) -> DAG:
    """The DAG that runs a view's stream again from history, and publishes it in one commit."""
    what = "run a view's stream again from history, certify it, and publish it in one commit"
    with _on_request("replay", "Replay a view", what, replay_parameters(views), REPLAY, tag="replay") as dag:
        carry_out_replay()
    return dag


def migrate_dag(views: Mapping[str, Sequence[Declared]]) -> DAG:
    """The DAG that moves a view's readers to another version in steps, with checks and rollback."""
    what = "build a version from history, compare it, and move the readers of its view to it in steps"
    with _on_request("migrate", "Migrate a view", what, migration_parameters(views), MIGRATION, tag="migrate") as dag:
        carry_out_migration()
    return dag


def retire_dag(views: Mapping[str, Sequence[Declared]]) -> DAG:
    """The DAG that retires a version without readers; a person approves the deletion of its tables."""
    what, form = "retire a version without readers, and delete its tables after approval", retirement_parameters(views)
    with _on_request("retire", "Retire a version", what, form, RETIREMENT, tag="migrate") as dag:
        carry_out_retirement()
    return dag


def load_dag() -> DAG:
    """The DAG that loads files of history into landing."""
    what = "load files of history (Parquet, CSV, JSON lines, Avro) into landing"
    with _on_request("load", "Load files", what, load_parameters(), LOAD, tag="load") as dag:
        carry_out_load()
    return dag


def _on_request(dag_id: str, title: str, what: str, params: dict[str, Param], doc: str, *, tag: str) -> DAG:
    """A DAG that only runs when triggered with its form. Many runs may be active, since they wait for a person or for
    days; a lock of its own refuses what must not run twice."""
    return DAG(
        dag_id=dag_id,
        dag_display_name=title,
        description=what,
        schedule=None,
        catchup=False,
        max_active_runs=16,
        params=params,
        doc_md=doc,
        tags=[tag],
        default_args=dict(DEFAULT_ARGS),
        on_failure_callback=run_failed,
    )


def maintain_dag() -> DAG:
    """The DAG that merges small files and deletes old ones, on ANABRANCH_MAINTENANCE_SCHEDULE (cron in UTC)."""
    with DAG(
        dag_id="maintain",
        dag_display_name="Maintenance",
        description="merge small files; delete old files, commits, builds, checkpoints and logs",
        schedule=CronTriggerTimetable(load_settings().maintenance_schedule, timezone="UTC"),
        catchup=False,
        max_active_runs=1,
        doc_md=MAINTENANCE,
        tags=["maintenance"],
        default_args=dict(DEFAULT_ARGS),
        on_failure_callback=run_failed,
    ) as dag:
        maintain()
    return dag
