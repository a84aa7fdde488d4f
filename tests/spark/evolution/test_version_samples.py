"""Before a new view reads all of history, a few events of each version go through it: what breaks it has a name."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from anabranch.compute.batch.version_samples import SAMPLE_SIZE, try_each_version
from anabranch.core.errors import BadDefinition
from anabranch.core.settings import Settings
from anabranch.views import View
from anabranch.views.model.handle import ViewHandle
from support.evolved_contract import TWO, Departure, delays_to, land

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def picky(departed: DataFrame) -> DataFrame:
    """Can't live without the minutes that only some events of v2 leave out."""
    from pyspark.sql import functions as F

    minutes = F.coalesce("minutes_late", F.raise_error(F.lit("no minutes")).cast("int"))
    return delays_to.function(departed.withColumn("minutes_late", minutes))


PICKY: View = replace(delays_to, name="picky", function=picky)
FINE = [Departure(f"01 05:{n:02d}", n) for n in range(40)]
WORSE = [Departure("02 07:10", None, version=2), Departure("02 07:20", 5, version=2)]


def test_a_version_that_breaks_the_view_is_named_with_an_event(spark: SparkSession, settings: Settings) -> None:
    handle = ViewHandle(settings, PICKY, TWO)
    before = land(spark, settings, TWO, FINE)
    cut = land(spark, settings, TWO, WORSE)
    with pytest.raises(BadDefinition, match="no minutes") as refusal:
        try_each_version(spark, handle, cut)
    fields = refusal.value.fields
    assert (refusal.value.code, fields["type"], fields["version"]) == ("VIEW_BREAKS_ON", "flight.departed", 2)
    assert fields["offset"] == len(FINE), "the event that it fails for is another one"
    assert "flights/0@40 of 2013-01-02" in str(refusal.value)
    assert try_each_version(spark, handle, before) == SAMPLE_SIZE, "what lands after the cut is no history"


def test_a_view_that_takes_every_version_is_tried_with_each(spark: SparkSession, settings: Settings) -> None:
    cut = land(spark, settings, TWO, FINE, WORSE)
    assert try_each_version(spark, ViewHandle(settings, delays_to, TWO), cut) == SAMPLE_SIZE + len(WORSE)
