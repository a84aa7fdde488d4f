"""The DAG ``maintain``: merges small files and takes away what is old and needed by nobody, every hour.

When is the setting ANABRANCH_MAINTENANCE_SCHEDULE, a cron expression in UTC.
"""

from __future__ import annotations

from airflow.sdk import DAG, CronTriggerTimetable
from anabranch.apps.airflow.maintain_tasks import maintain
from anabranch.apps.airflow.params import MAINTENANCE
from anabranch.apps.airflow.retry_policy import DEFAULT_ARGS
from anabranch.core.settings import load_settings

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
