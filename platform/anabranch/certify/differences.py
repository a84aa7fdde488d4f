"""Row-level differences between two sides of a view: keys, columns, both values."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING, Any, Literal

from anabranch.certify._source_events import EventRef, find_source_events
from anabranch.certify.comparison_inputs import SpeedState, comparable_rows, function_rows, speed_rows, speed_state
from anabranch.views import View
from anabranch.views.model.canonical import canonical
from anabranch.views.model.definition import PARTITION_DATE
from anabranch.views.model.handle import ViewHandle
from anabranch.views.selection.inputs import events_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Kind = Literal["changed", "missing", "extra", "repeated"]
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Cell:
    """One column in which the two sides of a row differ."""

    column: str
    speed: Any
    expected: Any


@dataclass(frozen=True, slots=True)
class Difference:
    """One key whose rows differ between the two sides.

    missing: the speed table has no such row; extra: only the speed table has it; repeated: one side has it more than
    once. ``events`` are the source events of the expected row (at most EVENTS_SHOWN of ``event_count``). ``verified``:
    the view's function over only these events returns that row.
    """

    key: Row = field(hash=False)
    kind: Kind
    cells: tuple[Cell, ...]
    expected: Row | None = field(hash=False, default=None)
    speed: Row | None = field(hash=False, default=None)
    events: tuple[EventRef, ...] = ()
    event_count: int = 0
    verified: bool = False


def differences(
    spark: SparkSession,
    view: ViewHandle,
    partition: date | None,
    *,
    state: SpeedState | None = None,
    limit: int = 20,
) -> list[Difference]:
    """Return the first ``limit`` keys of ``partition`` on which the speed table differs from the view's function over
    the same events, with their source events. Computes the partition again, which takes seconds."""
    state = state or speed_state(view)
    days = [partition] if partition is not None else []
    events = events_at(spark, view, state.cut, days, late=False, watermark=state.watermark, loaded=state.loaded)
    # The checkpoint is a barrier: without it Spark would push the partition filter through the author's function.
    expected = function_rows(view.definition, view.topics, events).localCheckpoint()
    if partition is not None:
        from pyspark.sql import functions as F

        expected = expected.where(F.col(PARTITION_DATE) == F.lit(partition))
    speed = speed_rows(spark, view.definition, state, days or None)
    unequal = _unequal_rows(comparable_rows(speed), comparable_rows(expected), view.definition, limit)
    unexplained = pair(view.definition, unequal, limit)
    rows = [d.expected or d.speed or d.key for d in unexplained]
    sources = find_source_events(view.definition, view.topics, events, rows)
    return [
        replace(d, events=s.shown, event_count=s.count, verified=d.expected is not None and s.gives(d.expected))
        for d, s in zip(unexplained, sources, strict=True)
    ]


def _unequal_rows(speed: DataFrame, expected: DataFrame, view: View, limit: int) -> list[Row]:
    """Return rows that don't occur equally often on both sides, with their counts (``_speed``, ``_expected``)."""
    from pyspark.sql import functions as F

    sided = speed.withColumn("_side", F.lit(1)).unionByName(expected.withColumn("_side", F.lit(0)))
    counted = sided.groupBy(*speed.columns).agg(
        F.sum("_side").alias("_speed"), F.sum(1 - F.col("_side")).alias("_expected")
    )
    unequal = counted.where(F.col("_speed") != F.col("_expected")).orderBy(*view.key).limit(2 * limit)
    rows: list[Row] = unequal.toArrow().to_pylist()
    return rows


def pair(view: View, rows: Sequence[Row], limit: int) -> list[Difference]:
    """Pair the rows of both sides by key; returns at most ``limit`` keys."""
    by_key: dict[tuple[Hashable, ...], list[Row]] = {}
    for row in rows:
        by_key.setdefault(tuple(canonical(row[name]) for name in view.key), []).append(row)
    return [_difference(view, same_key) for same_key in list(by_key.values())[:limit]]


def _difference(view: View, rows: Sequence[Row]) -> Difference:
    surplus = [row for row in rows if row["_speed"] > row["_expected"]]
    lacking = [row for row in rows if row["_speed"] < row["_expected"]]
    key = {name: rows[0][name] for name in view.key}
    speed = _visible(surplus[0]) if surplus else None
    expected = _visible(lacking[0]) if lacking else None
    if surplus and lacking:
        cells = tuple(Cell(c, surplus[0][c], lacking[0][c]) for c in lacking[0] if _differs(c, surplus[0], lacking[0]))
        return Difference(key, "changed", cells, expected, speed)
    (row,) = surplus[:1] or lacking[:1]
    if row["_speed"] and row["_expected"]:
        return Difference(key, "repeated", (Cell("(times)", row["_speed"], row["_expected"]),), _visible(row), speed)
    shown = {name: value for name, value in _visible(row).items() if name not in view.key}
    cells = tuple(Cell(c, v if surplus else None, v if lacking else None) for c, v in shown.items())
    return Difference(key, "extra" if surplus else "missing", cells, expected, speed)


def _visible(row: Row) -> Row:
    return {name: value for name, value in row.items() if name not in {"_speed", "_expected", PARTITION_DATE}}


def _differs(column: str, left: Row, right: Row) -> bool:
    return column not in {"_speed", "_expected", PARTITION_DATE} and canonical(left[column]) != canonical(right[column])
