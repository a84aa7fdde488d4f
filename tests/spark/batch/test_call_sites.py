"""Errors at run time name the line of the author's file; what the platform builds itself records no lines."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from anabranch.compute.batch.rebuild import rebuild
from anabranch.compute.speed.view_stream import catch_up
from anabranch.core.engine.call_sites import call_sites
from anabranch.core.errors import BrokenState, root_cause
from anabranch.core.settings import Settings
from anabranch.views.model.handle import ViewHandle
from pyspark.errors import NumberFormatException, utils
from support.landed_sample import FLIGHTS, Landing, sample_views
from support.small_platform import DAYS, departed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
DELAYS = sample_views().get("departure_delays")


def not_a_number(departed: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    wrong = departed.withColumn("dest", F.col("dest").cast("int").cast("string"))
    return DELAYS.function(wrong.where("dest > '0'"))


def site(spark: SparkSession) -> str | None:
    """What Spark knows of the line below."""
    from pyspark.sql import functions as F

    column = F.col("one").cast("int")
    plan = spark.createDataFrame([("1",)], "one string").select(column)._jdf.queryExecution().logical()
    context = plan.projectList().head().origin().pysparkErrorContext()
    return str(context.get()._2()) if context.isDefined() else None


@pytest.fixture
def landing(settings: Settings) -> Landing:
    found = Landing(settings)
    found.land([departed(1, DAYS[0]), departed(2, DAYS[0])])
    return found


def test_lines_are_recorded_in_such_a_block_only(spark: SparkSession) -> None:
    assert site(spark) is None
    with call_sites():
        with call_sites():
            assert __file__ in str(site(spark))
        assert __file__ in str(site(spark))
    assert site(spark) is None


def test_behind_it_a_session_of_somebody_else_is_asked_for_its_setting_again() -> None:
    with call_sites():
        assert utils.is_debugging_enabled()
    assert utils._enable_debugging_cache is None


def test_an_error_in_either_path_names_the_line(spark: SparkSession, settings: Settings, landing: Landing) -> None:
    view = replace(DELAYS, function=not_a_number)
    place = f"tests/spark/batch/test_call_sites.py:{not_a_number.__code__.co_firstlineno + 3}"
    with pytest.raises(NumberFormatException) as error:
        rebuild(spark, ViewHandle(settings, view, FLIGHTS), DAYS[:1], "run-1")
    assert root_cause(error.value).endswith(f"SQLSTATE: 22018 (called at {place})")
    with pytest.raises(BrokenState, match=f"(called at {place})"):
        catch_up(spark, ViewHandle(settings, view, FLIGHTS))
