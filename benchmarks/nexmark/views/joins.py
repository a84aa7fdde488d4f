"""Queries that join by an id whatever the times: 3 and 20.

Not whatever, in truth: who sells is one of the newest thousand persons, what is bid on is one of the newest hundred
auctions, and either may come a little later than the event that names it (see generator.py). That bounds the days.
"""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(
    name="nexmark_q3",
    version=1,
    events=["nexmark.auction", "nexmark.person"],
    key=["date_time", "id"],
    partition_by="date_time",
    lookback="3 days",
    lookahead="1 hour",
    refresh="partitions",
)
def q3(auction: DataFrame, person: DataFrame) -> DataFrame:
    """Local items: the auctions of category 10 by sellers in Oregon, Idaho or California."""
    near = person.where(F.col("state").isin("OR", "ID", "CA")).select(
        F.col("id").alias("person"), "name", "city", "state"
    )
    opened = auction.where("category = 10").select(F.col("event_time").alias("date_time"), "id", "seller")
    return opened.join(near, F.expr("seller = person")).select("date_time", "id", "name", "city", "state")


@view(
    name="nexmark_q20",
    version=1,
    events=["nexmark.bid", "nexmark.auction"],
    key=["bid_date_time", "bid"],
    partition_by="bid_date_time",
    lookback="3 hours",
    lookahead="1 hour",
    refresh="partitions",
)
def q20(bid: DataFrame, auction: DataFrame) -> DataFrame:
    """Each bid on an auction of category 10, with the auction."""
    bids = bid.select(
        F.col("event_time").alias("bid_date_time"),
        F.col("event_id").alias("bid"),
        *("auction", "bidder", "price", "channel", "url"),
        F.col("extra").alias("bid_extra"),
    )
    opened = auction.where("category = 10").select(
        *("id", "item_name", "description", "initial_bid", "reserve", "expires", "seller", "category"),
        F.col("event_time").alias("auction_date_time"),
        F.col("extra").alias("auction_extra"),
    )
    return bids.join(opened, F.expr("auction = id")).drop("id")
