"""Counts the late events in no half of a view, for `anabranch status`. Returns text, also for what can't be read."""

from __future__ import annotations

from anabranch.compute.batch.missing_days import missing
from anabranch.core.settings import Settings
from anabranch.lake import latest_commit
from anabranch.lake.landed import landed_cut
from anabranch.lake.layout import VersionRef
from anabranch.views.registered_definition import registered_view


def late_missing(settings: Settings, name: str, version: int) -> str:
    """Returns the count at the newest landed cut as text; "" if the version was never registered or its stream has
    committed nothing."""
    try:
        view = registered_view(VersionRef(settings, name, version)) if version else None
        speed = latest_commit(VersionRef(settings, name, version).speed_table) if view is not None else None
        if view is None or speed is None:
            return ""
        newest = speed.note.cut.joined(landed_cut(settings, speed.note.cut.positions))
        return f"{missing(settings, view, newest).late:,}"
    except Exception as error:  # a table is broken or being created: `status` must show that, not fail
        return f"unknown ({getattr(error, 'code', type(error).__name__)})"
