"""Airflow's DAGs of this project: reprocess_VIEW, repair_VIEW, replay, migrate, retire, load and maintain."""

from anabranch.apps.airflow.dags import project_dags

globals().update(project_dags())
