"""Whether rows are what they must be: computed anew by the view's function."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import date
from random import Random
from typing import TYPE_CHECKING

from anabranch.certify.certify_partitions import certify
from anabranch.certify.comparison_inputs import SpeedState, function_rows, speed_rows
from anabranch.certify.row_hashes import checksums
from anabranch.compute.batch.publish import published_in
from anabranch.compute.speed.view_stream import landed_days
from anabranch.lake.layout import landing_table
from anabranch.operate.doctor.commits import rebuilt, reprocessed
from anabranch.operate.doctor.context import Context, TableState, each
from anabranch.operate.doctor.findings import Check, Finding
from anabranch.views import View
from anabranch.views.inputs import events_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def computed(spark: SparkSession, sample: int) -> tuple[Check, Check]:
    """Equal cut, equal rows: ``sample`` partitions of each half (0: all), drawn anew for each pair of checks."""
    days = _Days(sample)

    @each("speed")
    def speed(platform: Context, held: TableState) -> Iterator[Finding]:
        """ROWS_DIFFER: a partition of a speed half isn't what the view's function gives at the half's own cut."""
        view = _declared(platform, held)
        if view is None:
            return
        topics = platform.views.topic(view)
        landing = {topic.name: landing_table(platform.settings, topic.name) for topic in topics.each}
        known = [] if view.kappa else landed_days(view, topics, landing)
        found = certify(spark, platform.settings, view, topics, days.of(known))
        for certificate in found:
            if not certificate.equal:
                which = certificate.partition or "the whole view"
                rows = f"{certificate.speed.rows} rows, the view's function gives {certificate.expected.rows} others"
                what = f"at {certificate.cut} it is not the function of its events: {rows}"
                yield Finding("ROWS_DIFFER", f"{held.place} ({held.place.uri}), {which}", what, rebuilt(held.place))

    @each("batch")
    def batch(platform: Context, held: TableState) -> Iterator[Finding]:
        """ROWS_DIFFER: a published partition isn't what the function gives at the cut that it was published at, with
        the late events in."""
        view = _declared(platform, held)
        if view is None or held.newest is None:
            return
        shown = published_in(held.newest.note)
        chosen = days.of(sorted(shown))
        for cut in {str(shown[day].cut): shown[day].cut for day in chosen}.values():
            there = [day for day in chosen if shown[day].cut == cut]
            topics = platform.views.topic(view)
            events = events_at(spark, platform.settings, view, topics, cut, there, late=True)
            state = SpeedState(held.place.uri, held.table.version(), cut)
            sides = {"made": speed_rows(spark, view, state, there), "expected": function_rows(view, topics, events)}
            sums = checksums(sides)
            for day in there:
                if sums.get(("made", day)) != sums.get(("expected", day)):
                    where = f"{held.place} ({held.place.uri}), partition {day}"
                    what = f"it is published at {cut}, and is not the function of its events up to there"
                    yield Finding("ROWS_DIFFER", where, what, reprocessed(held.place, day))

    return Check("speed halves computed anew", speed), Check("batch halves computed anew", batch)


class _Days:
    """The same choice for both looks of an examination."""

    def __init__(self, sample: int) -> None:
        self._sample, self._seed = sample, Random().random()  # noqa: S311 - which days are looked at is no secret

    def of(self, known: Collection[date]) -> list[date]:
        every = sorted(known)
        if not self._sample or len(every) <= self._sample:
            return every
        return sorted(Random(self._seed).sample(every, self._sample))  # noqa: S311 - as above


def _declared(platform: Context, held: TableState) -> View | None:
    """The view, where there is something to compute: a table of another definition is told by another check."""
    view = platform.view(held.place)
    newest = held.newest
    if view is None or newest is None or newest.note.fingerprint != view.fingerprint:
        return None
    return view if any(position.epoch for position in newest.note.cut.positions.values()) else None
