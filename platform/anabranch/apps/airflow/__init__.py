"""The platform's part inside Airflow: operators, tasks and forms for `dags/`, and a client of Airflow's REST API.

In: a DAG run's parameters. Out: the work of the platform's packages, run notes, and links.

`dags` builds a project's DAGs. `static_views` reads the view declarations from source, so that parsing a DAG runs no
author's code; `_current_version` says which version is served. `_params` has the forms and pages of documentation.
Task flows: `_reprocess_tasks` (plan, publish), `_migrate_tasks`, `_replay_tasks`, `_retire_tasks`, `_maintain_tasks`,
`_load_tasks`, `_certify_tasks` (kappa views; form: `_certify_form`); `_approval` waits for a person, `_spark_job`
submits Spark work, `_retry_policy` sets the retries, `progress_notes` show how far it is, `_run_notes` and `links` its
result, `note_markdown` escapes what these quote, `_run_failure` says why it failed, `notifiers` tells people,
`_assets` tells other DAGs. `dag_bundle` asks Airflow to parse the DAGs when what they are made from (`_dag_sources`)
has changed. `client` triggers and follows runs for commands, tasks and the pages, through `_rest_api` (requests,
login, errors).

`client`, `note_markdown`, `static_views` and `progress_notes` don't import Airflow; the others are for its processes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = ["client", "dag_bundle", "dags", "links", "note_markdown", "notifiers", "progress_notes", "static_views"]
