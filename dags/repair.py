"""The DAGs ``repair_VIEW``: rebuild the published days that late events touch (``anabranch.apps.airflow.dags``)."""

from __future__ import annotations

from anabranch.apps.airflow.dags import project_views, repair_dags

globals().update((dag.dag_id, dag) for dag in repair_dags(project_views()))
