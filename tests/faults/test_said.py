"""The one line of an error that people are shown says what happened, whoever has wrapped it."""

from __future__ import annotations

import pytest
from anabranch.core.errors import root_cause

pytestmark = pytest.mark.unit

TORN_STATE = """An error occurred while calling o11128.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult:
\tat org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:53)
Caused by: org.apache.spark.SparkException: [CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred. SQLSTATE: 58030
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.cannotLoadStore(QueryExecutionErrors.scala:2249)
Caused by: java.io.EOFException: Stream ended prematurely
\tat net.jpountz.lz4.LZ4BlockInputStream.readFully(LZ4BlockInputStream.java:280)
"""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            TORN_STATE,
            (
                "org.apache.spark.SparkException: [CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred. SQLSTATE: "
                "58030; java.io.EOFException: Stream ended prematurely"
            ),
        ),
        (
            "An error occurred while calling o1.parquet.\n: java.io.IOException: No space left on device\n\tat x",
            "java.io.IOException: No space left on device",
        ),
        ("An error occurred while calling o1.parquet.", "An error occurred while calling o1.parquet."),
        ("one line\nand more", "one line"),
        ('Traceback (most recent call last):\n  File "x"\nValueError: wrong\n', "ValueError: wrong"),
    ],
)
def test_what_is_said(text: str, told: str) -> None:
    assert root_cause(RuntimeError(text)) == told
