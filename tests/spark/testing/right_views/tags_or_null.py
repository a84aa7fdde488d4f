"""Each tag of an order by its place in it, null ones as well, and what a map says of it."""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(
    name="tags_or_null",
    version=1,
    events=["order.tagged"],
    key=["log_partition", "log_offset", "event_time", "place"],
    partition_by="event_time",
)
def tags_or_null(tagged: DataFrame) -> DataFrame:
    place = "log_partition", "log_offset", "event_time"
    tags = tagged.select(*place, "tags", "stock", F.posexplode("tags").alias("place", "tag"))
    return tags.select(*place, "place", "tag", "tags", F.try_element_at("stock", F.lit("a")).alias("stock"))
