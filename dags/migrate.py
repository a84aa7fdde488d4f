"""The DAG ``migrate``: moves readers between versions of a view (``anabranch.apps.airflow.dags``)."""

from __future__ import annotations

from anabranch.apps.airflow.dags import migrate_dag, project_views

dag = migrate_dag(project_views())
