"""Patterns of contracts, as Spark reads them: like the sender's check and the reasons of quarantine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from anabranch.contracts import Contract, PlainJson, Record, Topic
from anabranch.contracts.fields.patterns import java_pattern, python_pattern
from pyspark.sql import functions as F
from support.patterns import PORTABLE
from support.things_topic import decided, unexpected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_portable_pattern_means_the_same_to_the_engine(spark: SparkSession) -> None:
    texts = sorted({text for each in PORTABLE.values() for text in each})
    frame = spark.createDataFrame([(text,) for text in texts], "t string")
    columns = [F.col("t").rlike(java_pattern(pattern)).alias(str(n)) for n, pattern in enumerate(PORTABLE)]
    rows = frame.select("t", *columns).collect()
    differs = [
        (pattern, row["t"])
        for n, pattern in enumerate(PORTABLE)
        for row in rows
        if row[str(n)] is not (python_pattern(pattern).search(row["t"]) is not None)
    ]
    assert differs == []


def test_what_breaks_a_pattern_gets_a_reason_that_names_it(spark: SparkSession) -> None:
    schema = {
        "type": "object",
        "required": ["code"],
        "properties": {"code": {"type": "string", "pattern": r"^\d.$|^b$"}},
    }
    topic = Topic(
        "codes", (Contract("code.seen", 1, schema),), records=PlainJson(id=Record.OFFSET, time=Record.APPEND_TIME)
    )
    texts = {
        "1a": None,
        "b": None,
        "b\n": "contract: data.code doesn't match",
        "1\r": "contract: data.code doesn't match",
    }
    texts |= {"\u0663a": "contract: data.code doesn't match"}
    rows = decided(spark, {text: json.dumps({"code": text}).encode() for text in texts}, topic)
    assert unexpected(rows, texts) == {}
