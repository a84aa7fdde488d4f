"""Checksums of rows that depend neither on the rows' order nor on how they are distributed over tasks."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from typing import TYPE_CHECKING

from anabranch.certify.certificates import Checksum
from anabranch.views.model.definition import PARTITION_DATE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Sums = Mapping[tuple[str, date | None], Checksum]


def row_hash(columns: list[str]) -> Column:
    """Return a hash of a whole row. xxhash64 skips nulls, so (null, 'a') would equal ('a', null): an ``IS NULL`` flag
    is hashed with each column."""
    from pyspark.sql import functions as F

    # As SQL text: one call into the JVM instead of three per column.
    names = ["`" + name.replace("`", "``") + "`" for name in sorted(columns)]
    return F.expr(f"xxhash64({', '.join(f'{name}, {name} IS NULL' for name in names)})")


_SUMS = ("count(1) AS rows", "sum(CAST(h AS DECIMAL(38, 0))) AS hash_sum", "bit_xor(h) AS hash_xor")


def checksums(sides: Mapping[str, DataFrame]) -> Sums:
    """Return one Checksum per side and partition that has rows. Runs one Spark job per side, concurrently, so that one
    is planned while another runs."""
    with ThreadPoolExecutor(max(1, len(sides))) as pool:
        by_side = pool.map(_sums, sides.values())
        return {(side, day): checksum for side, sums in zip(sides, by_side, strict=True) for day, checksum in sums}


def _sums(rows: DataFrame) -> list[tuple[date | None, Checksum]]:
    from pyspark.sql import functions as F

    hashed = rows.select(PARTITION_DATE, row_hash([c for c in rows.columns if c != PARTITION_DATE]).alias("h"))
    sums = hashed.groupBy(PARTITION_DATE).agg(*map(F.expr, _SUMS)).collect()
    return [(r[PARTITION_DATE], Checksum(r["rows"], int(r["hash_sum"]), r["hash_xor"])) for r in sums]
