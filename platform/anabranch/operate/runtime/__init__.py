"""Starts, supervises and stops the platform's processes on one machine.

In: the settings, and the names of services (none means all). Out: running processes, one JSON record per process under
``HOME/run``, and a `PartStatus` for each.

`lifecycle` is the entry point (`start`, `stop`, `status`, `running`; `_start_failures`: its errors). `_services` lists
all services: `kafka_server`, `_postgres_server`, `airflow_parts`, `_http_server`, `_ways_in` (queues, StatsD) and the
two streams, each a `Service` (`_service`). `_preflight` checks Java, JARs, disk and ports. `_supervisor` starts the
services in the order of their dependencies and restarts those that die or are stuck;
`process_registry` keeps the records; `_stop_services` stops exactly what they name. `environment` and `secret_files`
provide the processes' variables and secrets, as `_part_needs` declares them for each; `unpassed_variables` finds those
that the project's code reads and doesn't get; `_loopback` keeps proxies from what is on this machine. `lag` and
`late_status` measure what `anabranch status` shows, `_retention` what the log may soon delete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = [
    "airflow_parts",
    "environment",
    "kafka_server",
    "lag",
    "late_status",
    "lifecycle",
    "process_registry",
    "secret_files",
    "unpassed_variables",
]
