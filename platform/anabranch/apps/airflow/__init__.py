"""The platform's part inside Airflow: operators, tasks and forms for `dags/`, and a client of Airflow's REST API.

In: a DAG run's parameters. Out: the work of the platform's packages, run notes, and links.

`dags` builds a project's DAGs. `static_views` reads the view declarations from source, so that parsing a DAG runs no
author's code. `params` has the forms and pages of documentation. Task flows: `reprocess_tasks` (plan, publish),
`migrate_tasks`, `replay_tasks`, `retire_tasks`, `maintain_tasks`; `approval` waits for a person, `spark_job` submits
Spark work, `retry_policy` sets the retries, `progress_notes` show how far it is, `run_notes` and
`links` its result, `run_failure` says why it failed, `notifiers` tells people, `assets` tells other DAGs. `client`
triggers and follows runs for the CLI.

`client`, `static_views` and `progress_notes` don't import Airflow; the other modules are for Airflow's own processes.
"""
