"""The DAGs of a project, a function for each kind. A project's files in ``dags/`` call them, or
``project_dags`` for all.

Parsing reads declarations as text (``static_views``): no author's code runs, no socket is opened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from anabranch.apps.airflow.maintain_tasks import maintain
from anabranch.apps.airflow.migrate_tasks import carry_out_migration
from anabranch.apps.airflow.params import (
    MAINTENANCE,
    MIGRATION,
    REPLAY,
    RETIREMENT,
    documentation,
    migration_parameters,
    parameters,
    repair_documentation,
    replay_parameters,
    retirement_parameters,
)
from anabranch.apps.airflow.replay_tasks import carry_out_replay
from anabranch.apps.airflow.reprocess_tasks import plan, plan_repair
from anabranch.apps.airflow.retire_tasks import carry_out_retirement
from anabranch.apps.airflow.retry_policy import DEFAULT_ARGS
from anabranch.apps.airflow.spark_job import reprocess_steps
from anabranch.apps.airflow.static_views import Declared, declared_views
from anabranch.core.settings import load_settings

from airflow.sdk import (
    DAG,
    Asset,
    AssetOrTimeSchedule,
    CronPartitionTimetable,
    CronTriggerTimetable,
    DeltaTriggerTimetable,
)

_SIDE_BY_SIDE = 16
"""Runs of a DAG whose runs wait, for a person or for days. What may not run twice is refused by its own lock."""


def project_views() -> dict[str, list[Declared]]:
    """The declared versions of each view of this project, newest first."""
    return declared_views(load_settings().views_folder)


def project_dags() -> dict[str, DAG]:
    """All DAGs of this project by their ids, for ``globals().update(project_dags())``."""
    views = project_views()
    made = [*reprocess_dags(views), *repair_dags(views), replay_dag(views), migrate_dag(views), retire_dag(views)]
    return {dag.dag_id: dag for dag in [*made, maintain_dag()]}


def reprocess_dags(views: Mapping[str, Sequence[Declared]]) -> list[DAG]:
    """One for each version of each view with partitions: ``reprocess_VIEW`` for the newest, ``reprocess_VIEW.v1`` for
    an older one, which stays current as long as it is declared."""
    return [
        _reprocess([view, *(other for other in versions if other is not view)])
        for versions in views.values()
        for view in versions
        if not view.kappa
    ]


def _reprocess(versions: Sequence[Declared]) -> DAG:
    """Of the first of ``versions``; the form offers the others, too.

    A scheduled run takes the day before yesterday: events of yesterday may still come and be on time.
    """
    view = versions[0]
    with DAG(
        dag_id=f"reprocess_{view.title}",
        dag_display_name=f"Reprocess {view.title}",
        description=f"plan, rebuild, certify and publish days of {view.title}",
        schedule=CronPartitionTimetable("0 0 * * *", timezone="UTC", run_offset=-2, key_format="%Y-%m-%d"),
        catchup=False,
        # A run may wait for a person's approval for days: others go on in the meantime.
        max_active_runs=8,
        params=parameters(versions),
        doc_md=documentation(versions),
        tags=["reprocess", *view.events],
        default_args=dict(DEFAULT_ARGS),
    ) as dag:
        reprocess_steps(plan(view.name))
    return dag


def repair_dags(views: Mapping[str, Sequence[Declared]]) -> list[DAG]:
    """One for each version of each view with partitions: rebuilds published days for which events have landed since.

    Each run takes the days that are dirty when it plans; without one it is skipped. It runs every hour, and whenever
    the view's asset is updated, by a DAG that has loaded late events, for example.
    """
    return [_repair(view) for versions in views.values() for view in versions if not view.kappa]


def _repair(view: Declared) -> DAG:
    with DAG(
        dag_id=f"repair_{view.title}",
        dag_display_name=f"Repair {view.title}",
        description=f"rebuild the published days of {view.title} that late events touch",
        schedule=AssetOrTimeSchedule(
            timetable=DeltaTriggerTimetable(timedelta(hours=1)),
            assets=Asset(f"late_events_of_{view.name}", uri=f"anabranch://views/{view.name}/late-events"),
        ),
        catchup=False,
        max_active_runs=1,
        doc_md=repair_documentation(view),
        tags=["repair", *view.events],
        default_args=dict(DEFAULT_ARGS),
    ) as dag:
        reprocess_steps(plan_repair(view.name, view.version))
    return dag


def replay_dag(views: Mapping[str, Sequence[Declared]]) -> DAG:
    """Runs the stream of a view again from history, and publishes it in one step."""
    with DAG(
        dag_id="replay",
        dag_display_name="Replay a view",
        description="run a view's stream again from history, certify it, and publish it in one step",
        schedule=None,
        catchup=False,
        max_active_runs=_SIDE_BY_SIDE,
        params=replay_parameters(views),
        doc_md=REPLAY,
        tags=["replay"],
        default_args=dict(DEFAULT_ARGS),
    ) as dag:
        carry_out_replay()
    return dag


def migrate_dag(views: Mapping[str, Sequence[Declared]]) -> DAG:
    """Moves the readers of a view to another version of it, with checks between the steps and a way back."""
    with DAG(
        dag_id="migrate",
        dag_display_name="Migrate a view",
        description="build a version from history, compare it, and lead the readers of its view over, step by step",
        schedule=None,
        catchup=False,
        max_active_runs=_SIDE_BY_SIDE,
        params=migration_parameters(views),
        doc_md=MIGRATION,
        tags=["migrate"],
        default_args=dict(DEFAULT_ARGS),
    ) as dag:
        carry_out_migration()
    return dag


def retire_dag(views: Mapping[str, Sequence[Declared]]) -> DAG:
    """Ends a version of a view that nobody reads any more; a person says when its tables are deleted."""
    with DAG(
        dag_id="retire",
        dag_display_name="Retire a version",
        description="end a version that nobody reads, and delete its tables when a person says so",
        schedule=None,
        catchup=False,
        max_active_runs=_SIDE_BY_SIDE,
        params=retirement_parameters(views),
        doc_md=RETIREMENT,
        tags=["migrate"],
        default_args=dict(DEFAULT_ARGS),
    ) as dag:
        carry_out_retirement()
    return dag


def maintain_dag() -> DAG:
    """Merges small files and deletes what is old and not needed; when: ANABRANCH_MAINTENANCE_SCHEDULE, cron in UTC."""
    with DAG(
        dag_id="maintain",
        dag_display_name="Maintenance",
        description="merge small files; take away old files, commits, builds, checkpoints and logs",
        schedule=CronTriggerTimetable(load_settings().maintenance_schedule, timezone="UTC"),
        catchup=False,
        max_active_runs=1,
        doc_md=MAINTENANCE,
        tags=["maintenance"],
        default_args=dict(DEFAULT_ARGS),
    ) as dag:
        maintain()
    return dag
