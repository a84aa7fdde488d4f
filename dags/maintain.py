"""The DAG ``maintain``: merges small files and takes away what is old and needed by nobody, every hour.

When is the setting ANABRANCH_MAINTENANCE_SCHEDULE, a cron expression in UTC.
"""

from __future__ import annotations

from airflow.sdk import DAG, CronTriggerTimetable
from anabranch.airflow.form import MAINTENANCE
from anabranch.airflow.maintaining import maintain
from anabranch.airflow.trying import DEFAULT_ARGS
from anabranch.settings import load_settings

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
