"""The DAGs ``reprocess_VIEW``: rebuild days of a view, certify them, publish them (``anabranch.apps.airflow.dags``)."""

from __future__ import annotations

from anabranch.apps.airflow.dags import project_views, reprocess_dags

globals().update((dag.dag_id, dag) for dag in reprocess_dags(project_views()))
