"""The DAG ``maintain``: merges small files and deletes old ones, every hour (``anabranch.apps.airflow.dags``)."""

from __future__ import annotations

from anabranch.apps.airflow.dags import maintain_dag

dag = maintain_dag()
