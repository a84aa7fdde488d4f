"""Views without a mistake raise no alarm: a log for some of them in each run, for all of them in ``make sweep``.

``pytest tests/spark/testing/test_right_views.py --prove-runs 30 --prove-seed random`` asks for a thousand and more.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.view_corpus import examples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
RIGHT = examples("right_views")
SOME = {
    *("city_of_the_order", "closed_orders", "customer_now", "days_of_new_york"),
    *("money", "two_topics_as_a_stream", "unpaid_by_a_processor"),
}
"""One of each kind: what every run of the tests proves."""
EACH = [pytest.param(name, marks=[] if name in SOME else [pytest.mark.sweep]) for name in RIGHT]


@pytest.mark.parametrize("name", EACH)
def test_it_is_proven(spark: SparkSession, tmp_path: Path, name: str) -> None:
    RIGHT[name].prove(tmp_path, spark=spark, runs=1)


def test_there_are_enough() -> None:
    assert len(RIGHT) >= 30
    assert set(RIGHT) > SOME
