"""What a replay has made beside what readers have: rows that say the same keep the epoch that readers know them by."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from anabranch.compute.speed.table import SpeedTable
from anabranch.lake import Cut, latest_commit
from anabranch.lake.commits import open_table
from anabranch.views.definition import PARTITION_DATE, View, changed_columns, is_changed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def settle(spark: SparkSession, view: View, table: SpeedTable, live: str, days: Sequence[date] | None) -> int:
    """Give the rows of ``table`` that are rows of the live table, too, that one's epochs, each partition in one file,
    in one commit; how many rows (of ``days``, None: all) were other ones, absent or too many in the live table.

    A replay's slices are larger than the live stream's micro-batches: by its own epochs the speed half of a partition
    would seem to know more than a batch half that was published in between. Rows that only one of the two cuts knows
    aren't counted.
    """
    at, known = table.newest(), open_table(live)
    before = latest_commit(known) if known is not None else None
    if known is None or before is None:
        return 0
    new, old = _rows(spark, table.uri, at.version, days), _rows(spark, live, known.version(), days)
    columns = new.columns
    both = _together(view, new, old).persist()
    try:
        mended = both.where(_other(columns, at.note.cut, before.note.cut)).count()
        table.refresh(table.stage(_settled(both, columns), 0), at.note)
    finally:
        both.unpersist()
    return mended


def _rows(spark: SparkSession, uri: str, version: int, days: Sequence[date] | None) -> DataFrame:
    from pyspark.sql import functions as F

    rows = spark.read.format("delta").option("versionAsOf", version).load(uri)
    return rows if days is None else rows.where(F.col(PARTITION_DATE).isin(list(days)))


def _together(view: View, new: DataFrame, old: DataFrame) -> DataFrame:
    """``new.*`` and ``old.*`` by key, as structs that are null where a side has no such row."""
    from pyspark.sql import functions as F

    # A live table that went wrong may hold a key twice; no row of the replay may become two by that.
    key = [*view.key, *([] if view.kappa else [PARTITION_DATE])]
    old = old.select(*new.columns).dropDuplicates(key)
    left = new.select(F.struct(*map(_named, new.columns)).alias("new"))
    right = old.select(F.struct(*map(_named, new.columns)).alias("old"))
    same_key = reduce(and_, (F.col(f"new.`{c}`").eqNullSafe(F.col(f"old.`{c}`")) for c in key))
    return left.join(right, same_key, "full_outer")


def _settled(both: DataFrame, columns: Sequence[str]) -> DataFrame:
    from pyspark.sql import functions as F

    def column(name: str) -> Column:
        new = F.col(f"new.`{name}`")
        if not is_changed(name):
            return new.alias(name)
        return F.when(_same(columns), F.col(f"old.`{name}`")).otherwise(new).alias(name)

    return both.where("new IS NOT NULL").select(*map(column, columns))


def _other(columns: Sequence[str], cut: Cut, live: Cut) -> Column:
    """Whether the two sides say something else of a row that both cuts know the last change of."""
    marks = {topic: column for topic, column in changed_columns(cut.positions).items() if column in columns}
    sides = (("old", cut), ("new", live))
    known = [_up_to(f"{side}.`{mark}`", of.epoch(t)) for t, mark in marks.items() for side, of in sides]
    return reduce(and_, known, ~_same(columns))


def _up_to(mark: str, epoch: int) -> Column:
    from pyspark.sql import functions as F

    return F.coalesce(F.col(mark), F.lit(0)) <= epoch


def _same(columns: Sequence[str]) -> Column:
    from pyspark.sql import functions as F

    values = [column for column in columns if not is_changed(column)]
    equal = [F.col(f"new.`{column}`").eqNullSafe(F.col(f"old.`{column}`")) for column in values]
    return reduce(and_, equal, F.col("new").isNotNull() & F.col("old").isNotNull())


def _named(column: str) -> Column:
    from pyspark.sql import functions as F

    return F.col(f"`{column}`")
