"""Which versions of a view are retired: by the newest note of its routes (ADR 0015)."""

from __future__ import annotations

from anabranch.core.settings import Settings
from anabranch.lake import latest_commit
from anabranch.lake.layout import routes_table

RETIRED = "retired"
"""The entry of a route's note."""


def retired_versions(settings: Settings, view: str) -> frozenset[int]:
    """For writers: the versions that have no stream and no repair any more."""
    committed = latest_commit(routes_table(settings, view))
    return frozenset(committed.note.extra.get(RETIRED, ())) if committed else frozenset()
