"""The DAG ``load``: loads files of history into landing (``anabranch.apps.airflow.dags``)."""

from __future__ import annotations

from anabranch.apps.airflow.dags import load_dag

dag = load_dag()
