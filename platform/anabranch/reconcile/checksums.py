"""Bags of rows as numbers that don't depend on their order or on how they are spread over tasks."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from functools import reduce
from typing import TYPE_CHECKING

from anabranch.reconcile.certificates import Checksum
from anabranch.views.definition import PARTITION

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Sums = Mapping[tuple[str, date | None], Checksum]


def row_hash(columns: list[str]) -> Column:
    """A hash of a whole row. xxhash64 skips nulls, so (null, 'a') would equal ('a', null): each column's
    being null is hashed beside it."""
    from pyspark.sql import functions as F

    parts = [part for name in sorted(columns) for part in (F.col(name), F.col(name).isNull())]
    return F.xxhash64(*parts)


def checksums(sides: Mapping[str, DataFrame]) -> Sums:
    """One Checksum for each side and partition that has rows, in one Spark job over all sides."""
    from pyspark.sql import functions as F

    hashed = [
        rows.select(
            F.lit(name).alias("side"), PARTITION, row_hash([c for c in rows.columns if c != PARTITION]).alias("h")
        )
        for name, rows in sides.items()
    ]
    sums = (
        reduce(lambda left, right: left.union(right), hashed)
        .groupBy("side", PARTITION)
        .agg(
            F.count(F.lit(1)).alias("rows"),
            F.sum(F.col("h").cast("decimal(38,0)")).alias("hash_sum"),
            F.bit_xor("h").alias("hash_xor"),
        )
        .collect()
    )
    return {(r["side"], r[PARTITION]): Checksum(r["rows"], int(r["hash_sum"]), r["hash_xor"]) for r in sums}
