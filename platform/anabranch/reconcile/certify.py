"""Certify: both paths of a view at the position of the log that its speed table covers, partition by partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from anabranch.events import Topic
from anabranch.reconcile.certificates import BUILD, RECOMPUTED, Certificate, Checksum
from anabranch.reconcile.checksums import checksums
from anabranch.reconcile.sides import (
    SpeedState,
    build_rows,
    closed_part,
    events_at,
    function_rows,
    speed_rows,
    speed_state,
)
from anabranch.reconcile.staged import Staged
from anabranch.reconcile.touched import Touched, touched
from anabranch.settings import Settings
from anabranch.views.definition import View

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SPEED = "speed"


def certify(
    spark: SparkSession,
    settings: Settings,
    view: View,
    topic: Topic,
    partitions: Sequence[date],
    build: Staged | None = None,
    *,
    run: str = "",
    state: SpeedState | None = None,
) -> list[Certificate]:
    """One certificate per partition; one, with partition None, for a kappa view (``partitions`` is not used).

    The speed table at its newest commit (or at ``state``) is compared with the view's function over the on-time
    events up to that commit's cut. A partition of ``build`` that no late event touches, and no event between its
    cut and the speed table's, is that function's result already: then nothing is computed again. One Spark job,
    whatever the number of partitions. Nothing is written: ``certificates.record`` keeps what is returned.
    """
    state = state or speed_state(settings, view)
    if view.kappa:
        expected = function_rows(view, topic, events_at(spark, settings, view, topic, state.cut, [], late=True))
        sums = checksums(_closed(view, {_SPEED: speed_rows(spark, view, state, None), RECOMPUTED: expected}))
        return [_certificate(view, state, None, run, sums, RECOMPUTED, 0)]
    if not partitions:
        return []
    counts = touched(settings, view, topic, partitions, state.cut, build.cut if build else state.cut)
    spared = [day for day in partitions if build and day in build.partitions and counts[day] == Touched()]
    again = [day for day in partitions if day not in spared]
    speed = speed_rows(spark, view, state, partitions)
    sides = {_SPEED: speed}
    if again:
        events = events_at(spark, settings, view, topic, state.cut, again, late=False)
        sides[RECOMPUTED] = function_rows(view, topic, events)
    if spared and build:
        sides[BUILD] = build_rows(spark, view, speed, build.paths(spared), build.base)
    sums = checksums(_closed(view, sides))
    return [
        _certificate(view, state, day, run, sums, BUILD if day in spared else RECOMPUTED, counts[day].late)
        for day in partitions
    ]


def _closed(view: View, sides: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    return {name: closed_part(view, rows) for name, rows in sides.items()}


def _certificate(
    view: View,
    state: SpeedState,
    day: date | None,
    run: str,
    sums: Mapping[tuple[str, date | None], Checksum],
    method: str,
    late: int,
) -> Certificate:
    return Certificate(
        view=view.name,
        version=view.version,
        partition=day,
        run=run,
        cut=state.cut,
        speed_version=state.version,
        fingerprint=view.fingerprint,
        method=method,
        speed=sums.get((_SPEED, day), Checksum()),
        expected=sums.get((method, day), Checksum()),
        late_events=late,
        created=datetime.now(UTC),
    )
