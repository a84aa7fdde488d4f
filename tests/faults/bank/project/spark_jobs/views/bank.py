"""Balances as a kappa view, and the movements of each hour as a view with days."""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def _movements(made: DataFrame) -> DataFrame:
    """Each transfer is two movements, which add up to zero."""
    out = F.struct(F.col("from").alias("account"), (-F.col("amount")).alias("amount"))
    back = F.struct(F.col("to").alias("account"), F.col("amount").alias("amount"))
    both = made.select("event_time", F.explode(F.array(out, back)).alias("one"))
    return both.select("event_time", "one.account", "one.amount")


@view(name="balances", version=1, events=["account.opened", "transfer.made"], key=["account"])
def balances(opened: DataFrame, made: DataFrame) -> DataFrame:
    begun = opened.select("event_time", "account", F.col("balance").alias("amount"))
    each = begun.unionByName(_movements(made)).groupBy("account")
    return each.agg(F.sum("amount").alias("amount"), F.count("*").alias("movements"))


@view(name="flows", version=1, events=["transfer.made"], key=["account", "hour"], partition_by="hour")
def flows(made: DataFrame) -> DataFrame:
    hourly = _movements(made).groupBy(F.window("event_time", "1 hour"), "account")
    rows = hourly.agg(F.sum("amount").alias("amount"), F.count("*").alias("movements"))
    return rows.withColumn("hour", F.col("window.start")).drop("window")
