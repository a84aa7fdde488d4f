"""The DAG ``retire``: takes a version of a view away that nobody reads any more; a person says when its tables go."""

from __future__ import annotations

from airflow.sdk import DAG
from anabranch.apps.airflow.params import RETIREMENT, retirement_parameters
from anabranch.apps.airflow.retire_tasks import carry_out_retirement
from anabranch.apps.airflow.retry_policy import DEFAULT_ARGS
from anabranch.apps.airflow.static_views import declared_views
from anabranch.core.settings import load_settings

with DAG(
    dag_id="retire",
    dag_display_name="Retire a version",
    description="end a version that nobody reads, and delete its tables when a person says so",
    schedule=None,
    catchup=False,
    # Each waits for a person, for weeks perhaps.
    max_active_runs=16,
    params=retirement_parameters(declared_views(load_settings().project / "spark_jobs" / "views")),
    doc_md=RETIREMENT,
    tags=["migrate"],
    default_args=dict(DEFAULT_ARGS),
) as dag:
    carry_out_retirement()
