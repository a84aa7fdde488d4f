"""The landing table: its columns, and how views and checks read landed rows. Knows nothing of how they are written.

In: a landing table. Out: columns, SQL conditions, counts, a watermark.

``schema`` names the columns and the decisions (valid, quarantined, duplicate, loaded, tombstone), ``schema_growth``
adds columns for a new contract version, ``schema_projection`` gives a column the type of another version. ``sql``
selects rows; ``event_counts`` counts events per day, ``late_events`` those that were late, ``contract_usage`` those per
contract version; ``epoch_commits`` finds an epoch in the log, ``watermark`` is that of its newest event, and
``known_versions`` refuses what this process can't read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = [
    "contract_usage",
    "epoch_commits",
    "event_counts",
    "known_versions",
    "late_events",
    "schema",
    "schema_growth",
    "schema_projection",
    "sql",
    "watermark",
]
