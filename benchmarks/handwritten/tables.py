"""How the hand-written jobs write their tables: whole days, or rows by key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DAY = "table_day"


def replace(rows: DataFrame, day: str | None, target: str, where: str | None = None) -> None:
    """The whole table, or the days of ``where``; one file a day instead of one for each task and day.

    ``day``: an expression for the day that a row is stored under; None: a table without days.
    """
    if day is None:
        rows.write.format("delta").mode("overwrite").save(target)
        return
    writer = with_day(rows, day).repartition(DAY).write.format("delta").mode("overwrite").partitionBy(DAY)
    if where is not None:
        writer = writer.option("replaceWhere", where)
    writer.save(target)


def merge(rows: DataFrame, number: int, day: str | None, key: Sequence[str], target: str) -> None:
    """The first micro-batch makes the table, each later one is merged by key."""
    if number == 0:
        replace(rows, day, target)
        return
    from delta.tables import DeltaTable

    same = " and ".join(f"target.{column} <=> source.{column}" for column in key)
    table = DeltaTable.forPath(rows.sparkSession, target).alias("target")
    upsert = table.merge(with_day(rows, day).alias("source"), same)
    upsert.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()


def with_day(rows: DataFrame, day: str | None) -> DataFrame:
    return rows if day is None else rows.withColumn(DAY, F.to_date(day))
