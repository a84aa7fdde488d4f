"""What we sell: orders and revenue per hour and country."""

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(name="revenue", version=1, events="order.placed", key=["hour", "country"], partition_by="hour")
def revenue(placed: DataFrame) -> DataFrame:
    """Orders and their total in cents, per hour of event time and country."""
    hourly = placed.groupBy(F.window("event_time", "1 hour"), "country").agg(
        F.count("*").alias("orders"), F.sum("cents").alias("cents")
    )
    return hourly.select(F.col("window.start").alias("hour"), "country", "orders", "cents")
