"""Certify: both paths of a view at the position of the log that its speed table covers, partition by partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from anabranch.certify.affected_partitions import closed_between, touched
from anabranch.certify.certificates import BUILD, RECOMPUTED, Certificate, Checksum
from anabranch.certify.comparison_inputs import SpeedState, build_rows, function_rows, speed_rows, speed_state
from anabranch.certify.row_hashes import checksums
from anabranch.certify.staged_build import Staged
from anabranch.contracts import Sources
from anabranch.core.settings import Settings
from anabranch.ingest.landing.event_counts import EventCount
from anabranch.views.definition import View
from anabranch.views.inputs import events_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SPEED = "speed"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both sides of some partitions at one cut, not computed yet. ``moved``: partitions whose rows can differ between
    the build's cut and the speed table's. ``spared``: those whose build is the function's result at both, because they
    haven't moved, and no late event touches them."""

    view: View
    state: SpeedState
    partitions: Sequence[date]
    spared: Sequence[date]
    moved: Set[date]
    counts: Mapping[date, EventCount]
    speed: DataFrame
    expected: Mapping[str, DataFrame]

    def method(self, day: date) -> str:
        return BUILD if day in self.spared else RECOMPUTED


def certify(
    spark: SparkSession,
    settings: Settings,
    view: View,
    topics: Sources,
    partitions: Sequence[date],
    build: Staged | None = None,
    *,
    run: str = "",
) -> list[Certificate]:
    """One certificate per partition; one, with partition None, for a kappa view (``partitions`` is not used).

    The speed table at its newest commit is compared with the view's function over the on-time events up to that
    commit's cut. A partition of ``build`` that no late event touches, and no event between its cut and the speed
    table's, is that function's result already: then nothing is computed again. One Spark job, whatever the number
    of partitions. Nothing is written: ``certificates.record`` keeps what is returned.
    """
    return certificates_of(compare(spark, settings, view, topics, partitions, build), run)


def compare(
    spark: SparkSession,
    settings: Settings,
    view: View,
    topics: Sources,
    partitions: Sequence[date],
    build: Staged | None = None,
    state: SpeedState | None = None,
) -> Comparison:
    """Both sides at the newest commit of the speed table, or at ``state``. Only landing's counts are read, no Spark job
    runs."""
    state = state or speed_state(settings, view)
    days = [] if view.kappa else list(partitions)
    counts = touched(settings, view, topics, days, state.cut, build.cut if build else state.cut)
    moved = closed_between(settings, view, topics, build.cut, state.cut, state.watermark) if build else set()
    moved |= {day for day in days if counts[day].between}
    spared = [day for day in days if build and day in build.partitions and not counts[day].late and day not in moved]
    again = [day for day in days if day not in spared]
    speed = speed_rows(spark, view, state, None if view.kappa else days)
    expected = {}
    if again or view.kappa:
        at = state.watermark
        events = events_at(spark, settings, view, topics, state.cut, again, late=False, watermark=at)
        expected[RECOMPUTED] = function_rows(view, topics, events)
    if spared and build:
        expected[BUILD] = build_rows(spark, view, speed, build.paths(spared), build.base)
    return Comparison(view, state, days, spared, moved, counts, speed, expected)


def certificates_of(comparison: Comparison, run: str) -> list[Certificate]:
    """Compare: one Spark job over both sides of all partitions."""
    sums = checksums({_SPEED: comparison.speed, **comparison.expected})
    if comparison.view.kappa:
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
        fingerprint=comparison.view.fingerprint,
        method=method,
        speed=sums.get((_SPEED, day), Checksum()),
        expected=sums.get((method, day), Checksum()),
        late_events=comparison.counts[day].late if day else 0,
        created=datetime.now(UTC),
    )
