"""What a project declares: contracts with their versions, records, topics; each validated when it is made.

In: arguments from ``spark_jobs/contracts``. Out: frozen objects, or BadDefinition with what to change.

1. ``contract`` is one version of an event type, ``upcasters`` the functions between versions; ``compatibility`` checks
   each version against the one before it;
2. ``records`` says how a topic's records are read (``_mapping_check`` holds that against the contracts);
   ``event_headers`` reads events in binary mode; ``topics`` combines contracts, upcasters and the broker's settings
   (``_declared_types`` looks at the types of all of it);
3. ``queues`` names the queues that fill topics, ``metrics`` the contract of StatsD's events; ``declarations`` loads all
   of a project; ``contract_registry`` records each version before its first event lands, and rejects later changes.
   ``infer`` drafts a contract from records (``_samples``), ``infer_events`` from CloudEvents, ``infer_schema`` from a
   schema; ``inferred`` is the draft.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = [
    "compatibility",
    "contract",
    "contract_registry",
    "declarations",
    "event_headers",
    "infer",
    "infer_events",
    "infer_schema",
    "inferred",
    "metrics",
    "queues",
    "records",
    "topics",
    "upcasters",
]
