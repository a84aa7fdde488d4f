"""Queries over the winning bid of each auction, the highest one while it was open: 4, 6 and 9.

An auction lasts four hours at most, and who sells has been there for less than three days (see generator.py): that is
how far the declared days reach.
"""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F


def _in_time(auction: DataFrame, bid: DataFrame) -> DataFrame:
    """Each auction with each bid that came while it was open."""
    opened = auction.withColumnsRenamed({"event_time": "date_time"}).drop(
        "event_id", "source", "subject", "log_partition", "log_offset"
    )
    made = bid.select(
        "auction",
        "bidder",
        "price",
        F.col("event_time").alias("bid_date_time"),
        F.col("extra").alias("bid_extra"),
        "log_partition",
        "log_offset",
    )
    return opened.join(made, F.expr("id = auction AND bid_date_time BETWEEN date_time AND expires"))


def _winning(auction: DataFrame, bid: DataFrame) -> DataFrame:
    """Of equal bids the earliest wins, by time and then by place in the log."""
    order = Window.partitionBy("id").orderBy(F.desc("price"), "bid_date_time", "log_partition", "log_offset")
    ranked = _in_time(auction, bid).withColumn("place", F.row_number().over(order))
    return ranked.where("place = 1").drop("place", "log_partition", "log_offset")


@view(
    name="nexmark_q4",
    version=1,
    events=["nexmark.auction", "nexmark.bid"],
    key=["day", "category"],
    partition_by="day",
    lookahead="4 hours",
    refresh="partitions",
)
def q4(auction: DataFrame, bid: DataFrame) -> DataFrame:
    """The average winning price of a category, by the day on which the auctions were opened.

    The benchmark has one average over all time. ``total`` and ``auctions`` add up to it exactly, whatever the days.
    """
    final = _in_time(auction, bid).groupBy("id", "category", "date_time").agg(F.max("price").alias("price"))
    by_day = final.groupBy(F.to_date("date_time").alias("day"), "category")
    summed = by_day.agg(F.sum("price").alias("total"), F.count("*").alias("auctions"))
    return summed.select("day", "category", "total", "auctions", F.expr("total div auctions").alias("average"))


@view(
    name="nexmark_q6",
    version=1,
    events=["nexmark.auction", "nexmark.bid"],
    key=["closed", "auction"],
    partition_by="closed",
    lookback="3 days",
    refresh="partitions",
)
def q6(auction: DataFrame, bid: DataFrame) -> DataFrame:
    """For each auction, when it has closed: the average winning price of its seller's last ten auctions."""
    order = Window.partitionBy("seller").orderBy("expires", "id").rowsBetween(-9, 0)
    totals = _winning(auction, bid).select(
        F.col("expires").alias("closed"),
        "auction",
        "seller",
        "price",
        F.count("*").over(order).alias("sold"),
        F.sum("price").over(order).alias("total"),
    )
    return totals.select("closed", "auction", "seller", "price", "sold", F.expr("total div sold").alias("average"))


@view(
    name="nexmark_q9",
    version=1,
    events=["nexmark.auction", "nexmark.bid"],
    key=["date_time", "id"],
    partition_by="date_time",
    lookahead="4 hours",
    refresh="partitions",
)
def q9(auction: DataFrame, bid: DataFrame) -> DataFrame:
    """The winning bid of each auction, with both."""
    return _winning(auction, bid)
