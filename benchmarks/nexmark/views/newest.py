"""Queries without an end, as kappa views: 18 and 19. Their streams keep state for ever, and have late bids too."""

from __future__ import annotations

from typing import Final

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

BID: Final = ("auction", "bidder", "price", "channel", "url", "extra")


@view(name="nexmark_q18", version=1, events="nexmark.bid", key=["bidder", "auction"])
def q18(bid: DataFrame) -> DataFrame:
    """The last bid of each bidder on each auction: by time, then by place in the log."""
    last = F.max(F.struct("event_time", "log_partition", "log_offset", "price", "channel", "url", "extra"))
    found = bid.groupBy("bidder", "auction").agg(last.alias("last"))
    return found.select(
        "auction",
        "bidder",
        *(f"last.{column}" for column in ("price", "channel", "url", "extra")),
        F.col("last.event_time").alias("date_time"),
    )


@view(name="nexmark_q19", version=1, events="nexmark.bid", key=["auction", "rank_number"])
def q19(bid: DataFrame) -> DataFrame:
    """The ten highest bids of each auction; of equal ones the earliest first, by time and then by place in the log."""
    order = ((-F.col("price")).alias("below"), "event_time", "log_partition", "log_offset")
    every = F.sort_array(F.collect_list(F.struct(*order, *(column for column in BID if column != "auction"))))
    top = bid.groupBy("auction").agg(F.slice(every, 1, 10).alias("top"))
    places = top.select("auction", F.posexplode("top").alias("place", "bid"))
    return places.select(
        "auction",
        *(f"bid.{column}" for column in BID if column != "auction"),
        F.col("bid.event_time").alias("date_time"),
        (F.col("place") + 1).cast("bigint").alias("rank_number"),
    )
