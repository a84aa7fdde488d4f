"""Views without a mistake raise no alarm: a log each here; ``--prove-runs`` of a nightly run asks for more."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from corpus import examples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
RIGHT = examples("right_views")


@pytest.mark.parametrize("name", RIGHT)
def test_it_is_proven(spark: SparkSession, tmp_path: Path, name: str) -> None:
    RIGHT[name].prove(tmp_path, spark=spark, runs=1)


def test_there_are_enough() -> None:
    assert len(RIGHT) >= 30
