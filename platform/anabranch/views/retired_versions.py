"""Which versions of a view are retired, from the latest commit of its routes (ADR 0015)."""

from __future__ import annotations

from anabranch.core.settings import Settings
from anabranch.lake import latest_commit
from anabranch.lake.layout import routes_table

RETIRED = "retired"
"""The key in the commit metadata of the routes table."""


def retired_versions(settings: Settings, view: str) -> frozenset[int]:
    """The versions that no longer have a stream or repairs. For writers."""
    committed = latest_commit(routes_table(settings, view))
    return frozenset(committed.note.extra.get(RETIRED, ())) if committed else frozenset()
