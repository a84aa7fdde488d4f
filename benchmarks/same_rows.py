"""Whether two jobs made the same rows; a benchmark of jobs that don't is worth nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class DifferentRows(AssertionError):
    """The two jobs of a pair have not done the same work."""


def check_same(ours: DataFrame, theirs: DataFrame, columns: Sequence[str]) -> int:
    """The number of rows, which are equal in ``columns`` as a bag; raises DifferentRows with what differs."""
    mine, others = ours.select(*columns), theirs.select(*columns)
    if (found := _checksum(mine)) != (expected := _checksum(others)):
        only_ours, only_theirs = mine.exceptAll(others).take(3), others.exceptAll(mine).take(3)
        raise DifferentRows(f"{found} and {expected}; only ours: {only_ours}; only theirs: {only_theirs}")
    if not found[0]:
        raise DifferentRows("both jobs have made no row at all")
    return found[0]


def _checksum(frame: DataFrame) -> tuple[int, int, int]:
    from pyspark.sql import functions as F

    row = F.xxhash64(*frame.columns)
    (found,) = frame.select(
        F.count("*"), F.coalesce(F.bit_xor(row), F.lit(0)), F.coalesce(F.sum(row.cast("decimal(38,0)")), F.lit(0))
    ).collect()
    return int(found[0]), int(found[1]), int(found[2])
