"""Whether late events are in no half of a view that somebody reads: history that was loaded late and not published."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from anabranch.compute.batch.missing_days import missing
from anabranch.lake import Cut
from anabranch.lake.layout import landing_table
from anabranch.operate.doctor.context import Context, TableRef, TableState, each
from anabranch.operate.doctor.findings import Finding, Severity
from anabranch.serve.routes import share_of
from anabranch.views.inputs import watermark_of
from anabranch.views.retired_versions import retired_versions

_OVERDUE = timedelta(days=7)
"""How far a day lies behind the watermark when somebody should have seen that its scheduled run, of the day before
yesterday, did not publish it. By event time: the clock of a machine plays no part."""


@each("speed")
def late_events(platform: Context, held: TableState) -> Iterator[Finding]:
    """LATE_NOWHERE: late events of days that should have been published and never were, of a version that has readers.

    What landed late for a published day is the next repair's, and what a version lacks that nobody reads is published
    by the migration to it. Landing whose files can't be read is told of by the check of data files.
    """
    place, settings = held.place, platform.settings
    view, cut = platform.view(place), held.newest.note.cut if held.newest else Cut()
    if view is None or view.kappa or not all(_readable(platform, topic) for topic in cut.positions):
        return
    retired = place.version in retired_versions(settings, place.name)
    if not cut.positions or retired or not share_of(settings, place.name, place.version):
        return
    days = missing(settings, view, cut).never_published
    watermark = watermark_of(settings, view, platform.views.topic(view), cut) if days else None
    overdue = sorted(day for day in days if watermark is not None and day + _OVERDUE <= watermark.date())
    if overdue:
        span = f"{overdue[0]}" if len(overdue) == 1 else f"{len(overdue)} days between {overdue[0]} and {overdue[-1]}"
        what = f"late events of {span} are in no half: never published ({sum(days[day] for day in overdue):,} of them)"
        mending = f"anabranch reprocess {place.name} --version {place.version} --missing"
        yield Finding("LATE_NOWHERE", f"{place} ({place.uri})", what, mending, Severity.DOUBTFUL)


def _readable(platform: Context, topic: str) -> bool:
    held = platform.held(TableRef("landing", landing_table(platform.settings, topic), topic))
    return held is not None and not any(file.fault() for file in held.files())
