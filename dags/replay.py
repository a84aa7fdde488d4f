"""The DAG ``replay``: runs the stream of a view again from history, beside the live one, and shows it in one step.

Its form asks for the view, the range, and how much of the machine it may take.
"""

from __future__ import annotations

from airflow.sdk import DAG
from anabranch.apps.airflow.params import REPLAY, replay_parameters
from anabranch.apps.airflow.replay_tasks import carry_out_replay
from anabranch.apps.airflow.retry_policy import DEFAULT_ARGS
from anabranch.apps.airflow.static_views import declared_views
from anabranch.core.settings import load_settings

with DAG(
    dag_id="replay",
    dag_display_name="Replay a view",
    description="run a view's stream again from history, certify it, and publish it in one step",
    schedule=None,
    catchup=False,
    # Two of one version are refused by its lock.
    max_active_runs=16,
    params=replay_parameters(declared_views(load_settings().project / "spark_jobs" / "views")),
    doc_md=REPLAY,
    tags=["replay"],
    default_args=dict(DEFAULT_ARGS),
) as dag:
    carry_out_replay()
