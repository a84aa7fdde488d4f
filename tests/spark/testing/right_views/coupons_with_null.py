"""Orders per coupon, and none is a coupon, too."""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(name="coupons_with_null", version=1, events=["order.placed"], key=["coupon"])
def coupons_with_null(placed: DataFrame) -> DataFrame:
    return placed.groupBy("coupon").agg(F.count("*").alias("orders"))
