"""The DAG ``retire``: ends a version that nobody reads any more (``anabranch.apps.airflow.dags``)."""

from __future__ import annotations

from anabranch.apps.airflow.dags import project_views, retire_dag

dag = retire_dag(project_views())
