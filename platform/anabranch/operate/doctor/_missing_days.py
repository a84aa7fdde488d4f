"""Checks for late events in no half of a view with readers: history that was loaded late and never published."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from anabranch.compute.batch.missing_days import missing
from anabranch.lake.cut import Cut
from anabranch.lake.layout import TableRef, VersionRef, landing_table
from anabranch.operate.doctor._context import Context, TableState, each
from anabranch.operate.doctor._findings import Finding, Severity
from anabranch.serve.routes import share_of
from anabranch.views.retired_versions import retired_versions
from anabranch.views.selection.inputs import watermark_of

_OVERDUE = timedelta(days=7)
"""How far behind the watermark a day must be to count as overdue: its scheduled run (of the day before yesterday)
should have published it long ago. Measured in event time, not by a machine's clock."""


@each("speed")
def late_events(context: Context, state: TableState) -> Iterator[Finding]:
    """LATE_NOWHERE: late events of days that should have been published and never were, of a version with readers.

    Late events of a published day are left to the next repair, and days of a version without readers to the migration.
    The data files check reports landing files that can't be read.
    """
    place, settings = state.place, context.settings
    view, cut = context.view(place), state.newest.note.cut if state.newest else Cut()
    if view is None or view.kappa or not all(_readable(context, topic) for topic in cut.positions):
        return
    retired = place.version in retired_versions(settings, place.name)
    if not cut.positions or retired or not share_of(VersionRef(settings, place.name, place.version)):
        return
    days = missing(settings, view, cut).never_published
    watermark = watermark_of(context.views.handle(settings, view), cut) if days else None
    overdue = sorted(day for day in days if watermark is not None and day + _OVERDUE <= watermark.date())
    if overdue:
        span = f"{overdue[0]}" if len(overdue) == 1 else f"{len(overdue)} days between {overdue[0]} and {overdue[-1]}"
        what = f"late events of {span} are in no half: never published ({sum(days[day] for day in overdue):,} of them)"
        next_step = f"anabranch reprocess {place.name} --version {place.version} --missing"
        yield Finding("LATE_NOWHERE", f"{place} ({place.uri})", what, next_step, Severity.DOUBTFUL)


def _readable(context: Context, topic: str) -> bool:
    state = context.table_state(TableRef("landing", landing_table(context.settings, topic), topic))
    return state is not None and not any(file.fault() for file in state.files())
