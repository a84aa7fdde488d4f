"""The DAG ``replay``: runs the stream of a view again from history (``anabranch.apps.airflow.dags``)."""

from __future__ import annotations

from anabranch.apps.airflow.dags import project_views, replay_dag

dag = replay_dag(project_views())
