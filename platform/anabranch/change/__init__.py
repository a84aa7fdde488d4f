"""Change: reprocess days, repair, migrate readers to another version, and replay streams.

In: requests from a form, a REST call or the CLI. Out: plans as data, published builds, routes, replayed tables.

Reprocess: ``reprocess_request`` validates the parameters (with ``request_fields``), ``reprocess_plan`` makes the plan
(with ``estimates``, by ``_time_fit``), and ``publish_run`` publishes what certify approved; ``run_progress`` is how far
a run is, ``run_names`` what Airflow calls it. Kappa views are certified directly: ``certify_plan``, ``certify_run``.
Repair: ``dirty_partitions`` finds published days with newer events. Migration: the package ``migrate``. Replay:
``replay_request`` validates, ``replay_plan`` makes the plan, the package ``replay`` runs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = [
    "certify_plan",
    "certify_run",
    "dirty_partitions",
    "estimates",
    "publish_run",
    "replay_plan",
    "replay_request",
    "reprocess_plan",
    "reprocess_request",
    "request_fields",
    "run_names",
    "run_progress",
]
