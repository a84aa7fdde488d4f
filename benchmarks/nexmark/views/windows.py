"""Queries over windows of time: 5, 7, 8 and 11."""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F


@view(
    name="nexmark_q5",
    version=1,
    events="nexmark.bid",
    key=["window_start", "auction"],
    partition_by="window_start",
    lookahead="1 hour",
    refresh="partitions",
)
def q5(bid: DataFrame) -> DataFrame:
    """Hot items: the auctions with the most bids in an hour, every twelve minutes; several where they are equal."""
    counted = bid.groupBy(F.window("event_time", "1 hour", "12 minutes"), "auction").agg(F.count("*").alias("num"))
    most = F.max("num").over(Window.partitionBy("window"))
    hottest = counted.withColumn("most", most).where("num = most")
    return hottest.select(
        F.col("window.start").alias("window_start"), F.col("window.end").alias("window_end"), "auction", "num"
    )


@view(name="nexmark_q7", version=1, events="nexmark.bid", key="window_start", partition_by="window_start")
def q7(bid: DataFrame) -> DataFrame:
    """The highest bid of each minute; of equal ones the earliest, by time and then by place in the log."""
    order = ((-F.col("price")).alias("below"), "event_time", "log_partition", "log_offset")
    highest = F.min(F.struct(*order, "auction", "bidder", "price", "extra")).alias("highest")
    by_minute = bid.groupBy(F.window("event_time", "1 minute")).agg(highest)
    return by_minute.select(
        F.col("window.start").alias("window_start"),
        *(f"highest.{column}" for column in ("auction", "bidder", "price", "extra")),
        F.col("highest.event_time").alias("date_time"),
    )


@view(
    name="nexmark_q8",
    version=1,
    events=["nexmark.person", "nexmark.auction"],
    key=["window_start", "id"],
    partition_by="window_start",
)
def q8(person: DataFrame, auction: DataFrame) -> DataFrame:
    """New users: who registered and opened an auction in the same twelve hours."""
    # One aggregate of both, where the benchmark joins two: it streams, and a person who is found stays found.
    registered = person.select("event_time", "id", "name", F.lit(0).alias("opened"))
    opened = auction.select(
        "event_time", F.col("seller").alias("id"), F.lit(None).alias("name"), F.lit(1).alias("opened")
    )
    both = registered.unionByName(opened).groupBy(F.window("event_time", "12 hours"), "id")
    found = both.agg(F.max("name").alias("name"), F.max("opened").alias("opened"))
    return found.where("name IS NOT NULL AND opened = 1").select(
        F.col("window.start").alias("window_start"), "id", "name"
    )


@view(
    name="nexmark_q11",
    version=1,
    events="nexmark.bid",
    key=["start_time", "bidder"],
    partition_by="start_time",
    lookback="1 day",
    lookahead="1 day",
    refresh="partitions",
)
def q11(bid: DataFrame) -> DataFrame:
    """User sessions: the bids of each bidder until none comes for an hour. None lasts a day, as people go."""
    sessions = bid.groupBy(F.session_window("event_time", "1 hour").alias("session"), "bidder")
    counted = sessions.agg(F.count("*").alias("bid_count"))
    return counted.select(
        "bidder", "bid_count", F.col("session.start").alias("start_time"), F.col("session.end").alias("end_time")
    )
