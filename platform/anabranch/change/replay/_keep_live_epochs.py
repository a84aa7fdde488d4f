"""Give the rows of a replay that are unchanged the epochs that they have in the live table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from anabranch.compute.speed.table import SpeedTable
from anabranch.lake import latest_commit, open_table
from anabranch.lake.cut import Cut
from anabranch.views import View
from anabranch.views.model.definition import PARTITION_DATE, changed_columns, is_changed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def keep_live_epochs(spark: SparkSession, view: View, table: SpeedTable, live: str, days: Sequence[date] | None) -> int:
    """Rewrite ``table`` in one commit, one file per partition: rows that are equal in the table ``live`` get its
    epochs. Returns how many rows (of ``days``, None: all) were different, missing or extra in the live table.

    A replay's slices are larger than the live stream's micro-batches: with the replay's own epochs a partition's speed
    half would look newer than a batch half that was published in between. Rows that changed after either of the two
    cuts aren't counted.
    """
    newest, live_table = table.newest(), open_table(live)
    live_commit = latest_commit(live_table) if live_table is not None else None
    if live_table is None or live_commit is None:
        return 0
    new, old = _rows(spark, table.uri, newest.version, days), _rows(spark, live, live_table.version(), days)
    columns = new.columns
    both = _join(view, new, old).persist()
    try:
        corrected = both.where(_differs(columns, newest.note.cut, live_commit.note.cut)).count()
        table.refresh(table.stage(_with_live_epochs(both, columns), 0), newest.note)
    finally:
        both.unpersist()
    return corrected


def _rows(spark: SparkSession, uri: str, version: int, days: Sequence[date] | None) -> DataFrame:
    from pyspark.sql import functions as F

    rows = spark.read.format("delta").option("versionAsOf", version).load(uri)
    return rows if days is None else rows.where(F.col(PARTITION_DATE).isin(list(days)))


def _join(view: View, new: DataFrame, old: DataFrame) -> DataFrame:
    """Full outer join by key. ``new`` and ``old`` are structs that are null if the side has no such row."""
    from pyspark.sql import functions as F

    # A faulty live table may have a key twice; the join must not duplicate the replay's row for it.
    key = [*view.key, *([] if view.kappa else [PARTITION_DATE])]
    old = old.select(*new.columns).dropDuplicates(key)
    left = new.select(F.struct(*map(_quoted, new.columns)).alias("new"))
    right = old.select(F.struct(*map(_quoted, new.columns)).alias("old"))
    same_key = reduce(and_, (F.col(f"new.`{c}`").eqNullSafe(F.col(f"old.`{c}`")) for c in key))
    return left.join(right, same_key, "full_outer")


def _with_live_epochs(both: DataFrame, columns: Sequence[str]) -> DataFrame:
    from pyspark.sql import functions as F

    def column(name: str) -> Column:
        new = F.col(f"new.`{name}`")
        if not is_changed(name):
            return new.alias(name)
        return F.when(_equal(columns), F.col(f"old.`{name}`")).otherwise(new).alias(name)

    return both.where("new IS NOT NULL").select(*map(column, columns))


def _differs(columns: Sequence[str], cut: Cut, live: Cut) -> Column:
    """Return the condition that both sides differ in a row whose last change both cuts cover."""
    epoch_columns = {topic: column for topic, column in changed_columns(cut.positions).items() if column in columns}
    sides = (("old", cut), ("new", live))
    covered = [_up_to(f"{side}.`{name}`", of.epoch(t)) for t, name in epoch_columns.items() for side, of in sides]
    return reduce(and_, covered, ~_equal(columns))


def _up_to(column: str, epoch: int) -> Column:
    from pyspark.sql import functions as F

    return F.coalesce(F.col(column), F.lit(0)) <= epoch


def _equal(columns: Sequence[str]) -> Column:
    from pyspark.sql import functions as F

    values = [column for column in columns if not is_changed(column)]
    equal = [F.col(f"new.`{column}`").eqNullSafe(F.col(f"old.`{column}`")) for column in values]
    return reduce(and_, equal, F.col("new").isNotNull() & F.col("old").isNotNull())


def _quoted(column: str) -> Column:
    from pyspark.sql import functions as F

    return F.col(f"`{column}`")
