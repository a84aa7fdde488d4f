"""Two versions of a view, each kept by a real stream over the same landing, against each other."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from anabranch.certify.compare_versions import compare_versions
from anabranch.compute.speed.view_stream import catch_up
from anabranch.core.settings import Settings
from anabranch.views.model.handle import ViewHandle
from pyspark.sql import functions as F
from support import departure_halves
from support.departure_halves import DAYS, DELAYS, TOPIC, Departure

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
EPOCHS = [
    [Departure("01 05:10", "JFK", 20), Departure("01 05:20", "JFK", 40, tailnum="N2"), Departure("01 06:00", "EWR", 0)],
    [Departure("02 05:10", "JFK", 1), Departure("02 05:20", "LGA", 90)],
]


def test_a_changed_meaning_is_found_where_it_is_and_nothing_else(spark: SparkSession, settings: Settings) -> None:
    """The new version counts delayed flights only, and each aircraft by itself; and it has no ``window_end``."""

    def of_aircraft(departed: DataFrame) -> DataFrame:
        hourly = departed.groupBy(F.window("event_time", "1 hour").alias("w"), "origin", "tailnum").agg(
            F.count_if(F.col("dep_delay") > 0).alias("flights"), F.sum("dep_delay").alias("delay_minutes")
        )
        return hourly.select("origin", "tailnum", F.col("w.start").alias("window_start"), "flights", "delay_minutes")

    cut = departure_halves.land(settings, EPOCHS)
    key = ("origin", "tailnum", "window_start")
    newer = replace(DELAYS, version=2, key=key, function=of_aircraft, fingerprint="delays-2")
    for view in (DELAYS, newer):
        catch_up(spark, ViewHandle(settings, view, TOPIC))

    found = compare_versions(settings, DELAYS, newer, changed=["flights", "window_end"])

    assert (found.cut, found.summed, found.key) == (cut, True, ("origin", "window_start"))
    assert (found.columns, found.as_declared) == (("flights", "delay_minutes"), True)
    assert [(p.partition, p.only_old, p.only_new, dict(p.cells)) for p in found.partitions] == [
        (DAYS[0], 0, 0, {"flights": 1})
    ]
    assert [(c.key["origin"], c.old, c.new) for c in found.examples] == [("EWR", 1, 0)]
    assert not compare_versions(settings, DELAYS, newer, changed=["window_end"]).as_declared
    undeclared = compare_versions(settings, DELAYS, newer, changed=["flights"])
    assert ([str(each) for each in undeclared.undeclared], undeclared.as_declared) == (["window_end is removed"], False)
