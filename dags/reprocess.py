"""One DAG for each version of each view with partitions: rebuild days of it, certify them, publish them.

The newest version's is ``reprocess_VIEW``, an older one's ``reprocess_VIEW.v1``: it stays as current as the newest, as
long as it is declared.

A scheduled run takes the day before yesterday: events of yesterday may still come and be on time (allowed lateness).
A range of days is asked for with the parameters, or as an Airflow backfill (one run a day).
"""

from __future__ import annotations

from airflow.sdk import DAG, CronPartitionTimetable
from anabranch.apps.airflow.params import documentation, parameters
from anabranch.apps.airflow.reprocess_tasks import plan
from anabranch.apps.airflow.retry_policy import DEFAULT_ARGS
from anabranch.apps.airflow.spark_job import reprocess_steps
from anabranch.apps.airflow.static_views import Declared, declared_views
from anabranch.core.settings import load_settings


def reprocess(versions: list[Declared]) -> DAG:
    """Of the first of ``versions``; the form offers the others, too."""
    view = versions[0]
    with DAG(
        dag_id=f"reprocess_{view.title}",
        dag_display_name=f"Reprocess {view.title}",
        description=f"plan, rebuild, certify and publish days of {view.title}",
        schedule=CronPartitionTimetable("0 0 * * *", timezone="UTC", run_offset=-2, key_format="%Y-%m-%d"),
        catchup=False,
        # A run may wait for a person's approval for days: others go on beside it.
        max_active_runs=8,
        params=parameters(versions),
        doc_md=documentation(versions),
        tags=["reprocess", *view.events],
        default_args=dict(DEFAULT_ARGS),
    ) as dag:
        reprocess_steps(plan(view.name))
    return dag


for versions in declared_views(load_settings().project / "spark_jobs" / "views").values():
    for view in versions:
        if not view.kappa:
            globals()[f"reprocess_{view.title}"] = reprocess([view, *(v for v in versions if v is not view)])
