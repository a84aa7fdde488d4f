"""Reports of a day's bidding: 15, 16 and 17."""

from __future__ import annotations

from typing import Final

from anabranch.views import view
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

LEVELS: Final = (
    ("rank1", "price < 10000"),
    ("rank2", "price >= 10000 AND price < 1000000"),
    ("rank3", "price >= 1000000"),
)
"""Three levels of price, by name."""


def _bids() -> list[Column]:
    levels = (F.count_if(F.expr(level)).alias(f"{rank}_bids") for rank, level in LEVELS)
    return [F.count("*").alias("total_bids"), *levels]


def _different(column: str, name: str) -> list[Column]:
    """How many different values, exactly: of all bids and of each level.

    With FILTER and not with F.when in the count: four counts of one column are one group to Spark then, and it makes
    three copies of each bid (for bidders, for auctions, for the rest); else it makes nine.
    """
    counted = f"count(DISTINCT {column})"
    counts = (F.expr(f"{counted} FILTER (WHERE {level})").alias(f"{rank}_{name}") for rank, level in LEVELS)
    return [F.expr(counted).alias(f"total_{name}"), *counts]


@view(name="nexmark_q15", version=1, events="nexmark.bid", key="day", partition_by="day", refresh="partitions")
def q15(bid: DataFrame) -> DataFrame:
    """How many bids, bidders and auctions there were each day, by level of price."""
    daily = bid.groupBy(F.to_date("event_time").alias("day"))
    return daily.agg(*_bids(), *_different("bidder", "bidders"), *_different("auction", "auctions"))


@view(
    name="nexmark_q16",
    version=1,
    events="nexmark.bid",
    key=["day", "channel"],
    partition_by="day",
    refresh="partitions",
)
def q16(bid: DataFrame) -> DataFrame:
    """The same for each channel, with the last minute of the day in which it was used."""
    daily = bid.groupBy(F.to_date("event_time").alias("day"), "channel")
    minute = F.max(F.date_format("event_time", "HH:mm")).alias("minute")
    return daily.agg(minute, *_bids(), *_different("bidder", "bidders"), *_different("auction", "auctions"))


@view(name="nexmark_q17", version=1, events="nexmark.bid", key=["day", "auction"], partition_by="day")
def q17(bid: DataFrame) -> DataFrame:
    """How many bids an auction had on a day, and their prices."""
    prices = (F.min("price").alias("min_price"), F.max("price").alias("max_price"), F.sum("price").alias("sum_price"))
    daily = bid.groupBy(F.window("event_time", "1 day"), "auction").agg(*_bids(), *prices)
    average = F.expr("sum_price div total_bids").alias("avg_price")  # from two exact sums; the benchmark's is whole too
    return daily.select(F.to_date("window.start").alias("day"), "*", average).drop("window")
