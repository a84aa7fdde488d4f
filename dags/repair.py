"""One DAG for each version of each view with partitions: rebuild the published days that events landed for since.

Late events are the usual reason. Each run takes exactly the days that are dirty when it plans; without one it is
skipped. What lands while it runs leaves its days dirty for the next run. It runs every hour, and whenever the view's
asset is updated: by a DAG that has loaded late events, say.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Asset, AssetOrTimeSchedule, DeltaTriggerTimetable
from anabranch.apps.airflow.params import repair_documentation
from anabranch.apps.airflow.reprocess_tasks import plan_repair
from anabranch.apps.airflow.retry_policy import DEFAULT_ARGS
from anabranch.apps.airflow.spark_job import reprocess_steps
from anabranch.apps.airflow.static_views import Declared, declared_views
from anabranch.core.settings import load_settings


def repair(view: Declared) -> DAG:
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


for versions in declared_views(load_settings().project / "spark_jobs" / "views").values():
    for view in versions:
        if not view.kappa:
            globals()[f"repair_{view.title}"] = repair(view)
