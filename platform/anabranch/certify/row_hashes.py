"""Bags of rows as numbers that don't depend on their order or on how they are spread over tasks."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from typing import TYPE_CHECKING

from anabranch.certify.certificates import Checksum
from anabranch.views.definition import PARTITION_DATE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Sums = Mapping[tuple[str, date | None], Checksum]


def row_hash(columns: list[str]) -> Column:
    """A hash of a whole row. xxhash64 skips nulls, so (null, 'a') would equal ('a', null): each column's
    being null is hashed beside it."""
    from pyspark.sql import functions as F

    # As SQL text: one call into the JVM in the place of three a column.
    names = ["`" + name.replace("`", "``") + "`" for name in sorted(columns)]
    return F.expr(f"xxhash64({', '.join(f'{name}, {name} IS NULL' for name in names)})")


_SUMS = ("count(1) AS rows", "sum(CAST(h AS DECIMAL(38, 0))) AS hash_sum", "bit_xor(h) AS hash_xor")


def checksums(sides: Mapping[str, DataFrame]) -> Sums:
    """One Checksum for each side and partition that has rows: a Spark job for each side, all at the same time, so
    that one is planned while another runs."""
    with ThreadPoolExecutor(max(1, len(sides))) as pool:
        found = pool.map(_sums, sides.values())
        return {(side, day): checksum for side, sums in zip(sides, found, strict=True) for day, checksum in sums}


def _sums(rows: DataFrame) -> list[tuple[date | None, Checksum]]:
    from pyspark.sql import functions as F

    hashed = rows.select(PARTITION_DATE, row_hash([c for c in rows.columns if c != PARTITION_DATE]).alias("h"))
    sums = hashed.groupBy(PARTITION_DATE).agg(*map(F.expr, _SUMS)).collect()
    return [(r[PARTITION_DATE], Checksum(r["rows"], int(r["hash_sum"]), r["hash_xor"])) for r in sums]
