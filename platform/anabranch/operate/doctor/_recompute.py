"""Checks rows by recomputing them with the view's function. Needs Spark."""

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
from anabranch.operate.doctor._commits import how_to_rebuild, how_to_reprocess
from anabranch.operate.doctor._context import Context, TableState, each
from anabranch.operate.doctor._findings import Check, Finding
from anabranch.views import View
from anabranch.views.selection.inputs import events_at
from anabranch.views.selection.partitions import touched_partitions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def recompute_checks(spark: SparkSession, sample: int) -> tuple[Check, Check]:
    """Returns the checks "equal cut, equal rows" for ``sample`` random partitions of each half (0: all). Each call
    draws a new sample."""
    days = _Days(sample)

    @each("speed")
    def speed(context: Context, state: TableState) -> Iterator[Finding]:
        """ROWS_DIFFER: a partition of a speed half isn't what the view's function returns at the half's own cut."""
        view = _declared(context, state)
        if view is None:
            return
        topics = context.views.topic(view)
        landing = {topic.name: landing_table(context.settings, topic.name) for topic in topics.each}
        known = set() if view.kappa else set(touched_partitions(view, landed_days(view, topics, landing)))
        existing = {file.partition for file in state.files() if isinstance(file.partition, date)}
        found = certify(spark, context.views.handle(context.settings, view), days.of(known | existing))
        for certificate in found:
            if not certificate.equal:
                which = certificate.partition or "the whole view"
                rows = f"it has {certificate.speed.rows} rows, the function returns {certificate.expected.rows}"
                what = f"at {certificate.cut} its rows are not what the view's function returns: {rows}"
                yield Finding(
                    "ROWS_DIFFER", f"{state.place} ({state.place.uri}), {which}", what, how_to_rebuild(state.place)
                )

    @each("batch")
    def batch(context: Context, state: TableState) -> Iterator[Finding]:
        """ROWS_DIFFER: a published partition isn't what the function returns at the cut that it was published at, late
        events included."""
        view = _declared(context, state)
        if view is None or state.newest is None:
            return
        shown = published_in(state.newest.note)
        chosen = days.of(sorted(shown))
        for cut in {str(shown[day].cut): shown[day].cut for day in chosen}.values():
            there = [day for day in chosen if shown[day].cut == cut]
            topics = context.views.topic(view)
            events = events_at(spark, context.views.handle(context.settings, view), cut, there, late=True)
            stored = speed_rows(spark, view, SpeedState(state.place.uri, state.table.version(), cut), there)
            sides = {"made": stored, "expected": function_rows(view, topics, events)}
            sums = checksums(sides)
            for day in there:
                if sums.get(("made", day)) != sums.get(("expected", day)):
                    where = f"{state.place} ({state.place.uri}), partition {day}"
                    what = f"it is published at {cut}, but its rows are not what the view's function returns there"
                    yield Finding("ROWS_DIFFER", where, what, how_to_reprocess(state.place, day))

    return Check("speed halves recomputed", speed), Check("batch halves recomputed", batch)


class _Days:
    """Chooses the same days in both passes of an examination."""

    def __init__(self, sample: int) -> None:
        self._sample, self._seed = sample, Random().random()  # noqa: S311 - which days are checked is no secret

    def of(self, known: Collection[date]) -> list[date]:
        every = sorted(known)
        if not self._sample or len(every) <= self._sample:
            return every
        return sorted(Random(self._seed).sample(every, self._sample))  # noqa: S311 - as above


def _declared(context: Context, state: TableState) -> View | None:
    """The view, if there is something to compute; None for a table of another definition, which another check
    reports."""
    view = context.view(state.place)
    newest = state.newest
    if view is None or newest is None or newest.note.fingerprint != view.fingerprint:
        return None
    return view if any(position.epoch for position in newest.note.cut.positions.values()) else None
