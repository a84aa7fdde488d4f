"""The append times that a landing table holds: those of the years 1 to 9999, as Python's and most readers' times.

Kafka checks no time that a producer sets itself (``CreateTime``; often microseconds for milliseconds). A record with
any other time is quarantined, and landed with the nearest time that can be held, which no record of the log has: those
are in milliseconds. So a release decides as landing did.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

FIRST: Final = datetime.min.replace(tzinfo=UTC)
LAST: Final = datetime.max.replace(tzinfo=UTC)
_FIRST_US: Final = -62_135_596_800_000_000
_LAST_US: Final = 253_402_300_799_999_999


def with_held_times(records: DataFrame) -> DataFrame:
    """``records``, none of them with an append time before FIRST or after LAST."""
    first, last = (F.timestamp_micros(F.lit(bound)) for bound in (_FIRST_US, _LAST_US))
    return records.withColumn("append_time", F.greatest(F.least(F.col("append_time"), last), first))


def is_held() -> Column:
    """Whether a record of ``with_held_times`` has the time that the log has."""
    return F.unix_micros("append_time").between(_FIRST_US + 1, _LAST_US - 1)
