"""Starts, supervises and stops the platform's processes on one machine.

In: the settings, and the names of services (none means all). Out: running processes, one JSON record per process under
``HOME/run``, and a `PartStatus` for each.

`lifecycle` is the entry point (`start`, `stop`, `status`, `running`). `services` lists all services: `kafka_server`,
`postgres_server`, `airflow_parts` and the two streams, each a `Service` (`service`). `preflight` checks Java, JARs,
disk and ports. `supervisor` starts the services in the order of their dependencies and restarts those that die
(`airflow_workers` detects a stuck scheduler); `process_registry` keeps the records; `stop_services` stops exactly what
they name. `environment` and `secret_files` provide the processes' variables and secrets. `lag` and `late_status`
measure what `anabranch status` shows.
"""
