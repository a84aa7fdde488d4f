"""Queries that look at one bid at a time: 0, 1, 2, 10, 13, 14, 21 and 22."""

from __future__ import annotations

from typing import Final

from anabranch.views import view
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

KEY: Final = ("date_time", "bid")
SIDE_KEYS: Final = 10_000
SIDE_INPUT: Final = ",".join(f"side-{key * 7919 % SIDE_KEYS}" for key in range(SIDE_KEYS))
"""The bounded side input: the value of key n is the n-th. A view reads events only, so the list is in its source."""
HOT_CHANNELS: Final = ("apple", "google", "facebook", "baidu")


def _row(bid: DataFrame, *columns: str | Column) -> DataFrame:
    """``columns`` of each bid beside its key: its time, and its id, because many bids may have one time."""
    return bid.select(F.col("event_time").alias("date_time"), F.col("event_id").alias("bid"), *columns)


def _euros() -> Column:
    return F.expr("CAST(0.908 * price AS decimal(23, 3))")


@view(name="nexmark_q0", version=1, events="nexmark.bid", key=KEY, partition_by="date_time")
def q0(bid: DataFrame) -> DataFrame:
    """Pass through."""
    return _row(bid, "auction", "bidder", "price", "extra")


@view(name="nexmark_q1", version=1, events="nexmark.bid", key=KEY, partition_by="date_time")
def q1(bid: DataFrame) -> DataFrame:
    """Currency conversion: the price of each bid in euros."""
    return _row(bid, "auction", "bidder", _euros().alias("price"), "extra")


@view(name="nexmark_q2", version=1, events="nexmark.bid", key=KEY, partition_by="date_time")
def q2(bid: DataFrame) -> DataFrame:
    """Selection: the bids on every 123rd auction."""
    return _row(bid.where(F.col("auction") % 123 == 0), "auction", "price")


@view(name="nexmark_q10", version=1, events="nexmark.bid", key=KEY, partition_by="date_time")
def q10(bid: DataFrame) -> DataFrame:
    """Log to files: every bid with the day and the minute that it is filed under."""
    day, minute = (F.date_format("event_time", form) for form in ("yyyy-MM-dd", "HH:mm"))
    return _row(bid, "auction", "bidder", "price", "extra", day.alias("dt"), minute.alias("hm"))


@view(name="nexmark_q13", version=1, events="nexmark.bid", key=KEY, partition_by="date_time")
def q13(bid: DataFrame) -> DataFrame:
    """Join with a bounded side input, by the auction's number."""
    # The engine splits the list once, when it plans: what is left is a look into an array.
    value = F.get(F.split(F.lit(SIDE_INPUT), ","), (F.col("auction") % SIDE_KEYS).cast("int"))
    return _row(bid, "auction", "bidder", "price", value.alias("value"))


@view(name="nexmark_q14", version=1, events="nexmark.bid", key=KEY, partition_by="date_time")
def q14(bid: DataFrame) -> DataFrame:
    """Calculation: bids within bounds, with the kind of hour they came in and the number of c's in their padding."""
    hour = F.hour("event_time")
    kind = F.when(hour.between(8, 18), "dayTime").when((hour <= 6) | (hour >= 20), "nightTime").otherwise("otherTime")
    letters = (F.length("extra") - F.length(F.replace("extra", F.lit("c"), F.lit("")))).cast("bigint")
    chosen = bid.where((_euros() > 1_000_000) & (_euros() < 50_000_000))
    columns = (_euros().alias("price"), kind.alias("bid_time_type"), "extra", letters.alias("c_counts"))
    return _row(chosen, "auction", "bidder", *columns)


@view(name="nexmark_q21", version=1, events="nexmark.bid", key=KEY, partition_by="date_time")
def q21(bid: DataFrame) -> DataFrame:
    """Add a channel id: known for four channels, else said by the URL; bids without one are left out."""
    channel = F.lower("channel")
    told = F.nullif(F.regexp_extract("url", "(&|^)channel_id=([^&]*)", 2), F.lit(""))
    place = F.array_position(F.array(*(F.lit(name) for name in HOT_CHANNELS)), channel) - 1
    identity = F.when(channel.isin(*HOT_CHANNELS), place.cast("string")).otherwise(told)
    return _row(bid, "auction", "bidder", "price", "channel", identity.alias("channel_id")).where("channel_id <> ''")


@view(name="nexmark_q22", version=1, events="nexmark.bid", key=KEY, partition_by="date_time")
def q22(bid: DataFrame) -> DataFrame:
    """The first three folders of the URL."""
    parts = F.split("url", "/")
    folders = (F.get(parts, F.lit(place)).alias(f"dir{place - 2}") for place in (3, 4, 5))
    return _row(bid, "auction", "bidder", "price", "channel", *folders)
