"""The DAG ``migrate``: the readers of a view to another version of it, with checks between the steps and a way back.

Its form asks for the view, the versions, the steps and what is promised; who approves sees both versions compared.
"""

from __future__ import annotations

from airflow.sdk import DAG
from anabranch.apps.airflow.migrate_tasks import carry_out_migration
from anabranch.apps.airflow.params import MIGRATION, migration_parameters
from anabranch.apps.airflow.retry_policy import DEFAULT_ARGS
from anabranch.apps.airflow.static_views import declared_views
from anabranch.core.settings import load_settings

with DAG(
    dag_id="migrate",
    dag_display_name="Migrate a view",
    description="build a version from history, compare it, and lead the readers of its view over, step by step",
    schedule=None,
    catchup=False,
    # Each takes days, most of which it waits; two of one view are refused by the view's route.
    max_active_runs=16,
    params=migration_parameters(declared_views(load_settings().project / "spark_jobs" / "views")),
    doc_md=MIGRATION,
    tags=["migrate"],
    default_args=dict(DEFAULT_ARGS),
) as dag:
    carry_out_migration()
