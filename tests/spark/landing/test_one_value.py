"""A record is one JSON value: the cheap look at a text's braces never hides a second one from the search."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest
from anabranch.ingest.landing.decoding._one_value import _has_room
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_no_text_with_a_value_behind_its_braces_is_passed_over(spark: SparkSession) -> None:
    texts = ["".join(each) for length in range(7) for each in product('{},"ä\n', repeat=length)]
    found = spark.createDataFrame([(text,) for text in texts], "text string")
    passed = found.where(~_has_room(F.col("text")))
    assert passed.where(F.col("text").rlike(r'\}\s*,\s*"')).count() == 0
    assert passed.where(F.col("text").isin("{}", '{"ä"}', "{{}}", "{{{}}}")).count() == 4
