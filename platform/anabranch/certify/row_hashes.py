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
    from pyspark.sql.types import DataType, MapType, StructType

Sums = Mapping[tuple[str, date | None], Checksum]


def row_hash(schema: StructType) -> Column:
    """Return a hash of a whole row. xxhash64 skips nulls, so (null, 'a') would equal ('a', null): an ``IS NULL`` flag
    is hashed with each column, and with each value inside of one."""
    from pyspark.sql import functions as F

    # As SQL text: one call into the JVM instead of three per column.
    columns = [(_quoted(field.name), field.dataType) for field in sorted(schema, key=lambda field: field.name)]
    return F.expr(f"xxhash64({', '.join(f'{_hashable(name, kind)}, {name} IS NULL' for name, kind in columns)})")


def _hashable(value: str, kind: DataType, depth: int = 0) -> str:
    """Return the SQL of a value as a hash can tell it from any other: arrays with their size, maps as arrays that are
    sorted by key."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        fields = ((f"{value}.{_quoted(field.name)}", field.dataType) for field in kind)
        inner = ", ".join(f"{_hashable(field, of, depth)}, {field} IS NULL" for field, of in fields)
        return f"IF({value} IS NULL, NULL, struct({inner}))"
    if isinstance(kind, ArrayType):
        item = f"_{depth}"
        items = f"struct({_hashable(item, kind.elementType, depth + 1)}, {item} IS NULL)"
        return f"IF({value} IS NULL, NULL, struct(size({value}), transform({value}, {item} -> {items})))"
    if isinstance(kind, MapType):
        item = f"_{depth}"
        key, of = (_hashable(f"{item}.{name}", each, depth + 1) for name, each in _pair(kind))
        items = f"struct({key}, {of}, {item}.value IS NULL)"
        # By key alone: what is left may not be comparable.
        ordered = f"transform(array_sort(map_keys({value})), {item} -> struct({item} AS key, {value}[{item}] AS value))"
        return f"IF({value} IS NULL, NULL, struct(size({value}), transform({ordered}, {item} -> {items})))"
    return value


def _pair(kind: MapType) -> tuple[tuple[str, DataType], tuple[str, DataType]]:
    return ("key", kind.keyType), ("value", kind.valueType)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


_SUMS = ("count(1) AS rows", "sum(CAST(h AS DECIMAL(38, 0))) AS hash_sum", "bit_xor(h) AS hash_xor")


def checksums(sides: Mapping[str, DataFrame]) -> Sums:
    """Return one Checksum per side and partition that has rows. Runs one Spark job per side, concurrently, so that one
    is planned while another runs."""
    with ThreadPoolExecutor(max(1, len(sides))) as pool:
        by_side = pool.map(_sums, sides.values())
        return {(side, day): checksum for side, sums in zip(sides, by_side, strict=True) for day, checksum in sums}


def _sums(rows: DataFrame) -> list[tuple[date | None, Checksum]]:
    from pyspark.sql import functions as F

    hashed = rows.select(PARTITION_DATE, row_hash(rows.drop(PARTITION_DATE).schema).alias("h"))
    sums = hashed.groupBy(PARTITION_DATE).agg(*map(F.expr, _SUMS)).collect()
    return [(r[PARTITION_DATE], Checksum(r["rows"], int(r["hash_sum"]), r["hash_xor"])) for r in sums]
