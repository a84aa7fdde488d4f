"""Certify partitions: compare both paths of a view at the cut that its speed table covers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from anabranch.certify.certificates import BUILD, RECOMPUTED, Certificate, Checksum
from anabranch.certify.comparison_inputs import SpeedState, build_rows, function_rows, speed_rows, speed_state
from anabranch.certify.row_hashes import checksums
from anabranch.compute.batch.manifest import StagedBuild
from anabranch.ingest.landing.table.event_counts import EventCount
from anabranch.views.model.handle import ViewHandle
from anabranch.views.selection.inputs import events_at
from anabranch.views.selection.partition_events import closed_between, count_affected_events

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SPEED = "speed"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both sides of some partitions at one cut, as lazy DataFrames.

    ``changed``: partitions whose rows can differ between the build's cut and the speed table's. ``reusable``:
    partitions whose build is valid at both cuts, because they haven't changed and no event that is only in batch (late
    or loaded) affects them; the function doesn't run for them again.
    """

    view: ViewHandle
    state: SpeedState
    partitions: Sequence[date]
    reusable: Sequence[date]
    changed: Set[date]
    counts: Mapping[date, EventCount]
    speed: DataFrame
    expected: Mapping[str, DataFrame]

    def method(self, day: date) -> str:
        return BUILD if day in self.reusable else RECOMPUTED


def certify(
    spark: SparkSession,
    view: ViewHandle,
    partitions: Sequence[date],
    build: StagedBuild | None = None,
    *,
    run: str = "",
) -> list[Certificate]:
    """Return one certificate per partition. A kappa view gets one with partition None, and ignores ``partitions``.

    Compares the speed table at its newest commit with the view's function over the on-time events up to that commit's
    cut. A partition of ``build`` is reused, not computed again, if no late or loaded event affects it and none lies
    between the build's cut and the speed table's. Runs one Spark job, whatever the number of partitions. Writes
    nothing: pass the result to ``certificates.record``.
    """
    return certificates_of(compare(spark, view, partitions, build), run)


def compare(
    spark: SparkSession,
    view: ViewHandle,
    partitions: Sequence[date],
    build: StagedBuild | None = None,
    state: SpeedState | None = None,
) -> Comparison:
    """Prepare both sides at the newest commit of the speed table, or at ``state``. Reads only landing's event counts;
    starts no Spark job."""
    state = state or speed_state(view)
    days = [] if view.definition.kappa else list(partitions)
    counts = count_affected_events(view, days, state.cut, build.cut if build else state.cut)
    changed = closed_between(view, days, build.cut, state.cut, state.watermark) if build else set()
    changed |= {day for day in days if counts[day].between}
    candidates = [day for day in days if build and day in build.partitions]
    reusable = [day for day in candidates if not counts[day].batch_only and day not in changed]
    recomputed = [day for day in days if day not in reusable]
    speed = speed_rows(spark, view.definition, state, None if view.definition.kappa else days)
    expected = {}
    if recomputed or view.definition.kappa:
        at = state.watermark
        events = events_at(spark, view, state.cut, recomputed, late=False, watermark=at, loaded=state.loaded)
        expected[RECOMPUTED] = function_rows(view.definition, view.topics, events)
    if reusable and build:
        expected[BUILD] = build_rows(spark, view.definition, speed, build.paths(reusable), build.base)
    return Comparison(view, state, days, reusable, changed, counts, speed, expected)


def certificates_of(comparison: Comparison, run: str) -> list[Certificate]:
    """Compare both sides of all partitions in one Spark job, and return the certificates."""
    sums = checksums({_SPEED: comparison.speed, **comparison.expected})
    if comparison.view.definition.kappa:
        return [_certificate(comparison, None, run, sums, RECOMPUTED)]
    return [_certificate(comparison, day, run, sums, comparison.method(day)) for day in comparison.partitions]


def _certificate(
    comparison: Comparison,
    day: date | None,
    run: str,
    sums: Mapping[tuple[str, date | None], Checksum],
    method: str,
) -> Certificate:
    return Certificate(
        view=comparison.view.name,
        version=comparison.view.version,
        partition=day,
        run=run,
        cut=comparison.state.cut,
        speed_version=comparison.state.version,
        fingerprint=comparison.view.definition.fingerprint,
        method=method,
        speed=sums.get((_SPEED, day), Checksum()),
        expected=sums.get((method, day), Checksum()),
        late_events=comparison.counts[day].batch_only if day else 0,
        created=datetime.now(UTC),
    )
