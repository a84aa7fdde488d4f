"""Whether two jobs did the same work: equal rows, in tables of the same layout. Else their times say nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MOST_MORE = 1.25
"""How many times as many files per partition, or columns with bounds, one of two tables may have."""


class DifferentRows(AssertionError):
    """The jobs of a pair didn't make the same rows."""


class DifferentLayout(AssertionError):
    """The tables of a pair don't have the same files per partition, compression or statistics."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How a table lies: mean number of files per partition, codecs, and the columns whose bounds are logged."""

    files: float
    codecs: frozenset[str]
    bounds: frozenset[str]


def check_same(ours: DataFrame, theirs: DataFrame, columns: Sequence[str]) -> int:
    """The number of rows, which are equal in ``columns`` as a bag; raises DifferentRows with what differs."""
    mine, others = ours.select(*columns), theirs.select(*columns)
    if (found := _checksum(mine)) != (expected := _checksum(others)):
        only_ours, only_theirs = mine.exceptAll(others).take(3), others.exceptAll(mine).take(3)
        raise DifferentRows(f"{found} and {expected}; only ours: {only_ours}; only theirs: {only_theirs}")
    if not found[0]:
        raise DifferentRows("both jobs have made no row at all")
    return found[0]


def check_layout(ours: str, theirs: str) -> str:
    """A sentence about the layout that both tables have; raises DifferentLayout where one has it easier. Of the columns
    with bounds ours may have more, not the rival: of both they are the first 32 leaves, which aren't the same ones."""
    mine, others = layout_of(ours), layout_of(theirs)
    harder = len(others.bounds) > _MOST_MORE * len(mine.bounds)
    many = max(mine.files, others.files) > _MOST_MORE * min(mine.files, others.files)
    if many or mine.codecs != others.codecs or harder:
        raise DifferentLayout(f"ours: {mine}; theirs: {others}")
    return (
        f"Both tables have the same layout: {mine.files:.1f} and {others.files:.1f} files per partition, "
        f"{'/'.join(sorted(mine.codecs))}, bounds of {len(mine.bounds)} and {len(others.bounds)} columns in the log."
    )


def layout_of(uri: str) -> Layout:
    """Raises TableNotFoundError."""
    table = DeltaTable(uri)
    actions = pa.table(table.get_add_actions(flatten=True))
    columns = [name for name in actions.column_names if name.startswith("partition.")]
    partitions = actions.group_by(columns).aggregate([]).num_rows if columns else 1
    return Layout(actions.num_rows / max(partitions, 1), frozenset(_codecs(uri, actions)), _bounds(table))


def _codecs(uri: str, actions: pa.Table, look: int = 8) -> set[str]:
    found = set()
    for path in actions["path"].to_pylist()[:look]:
        group = pq.read_metadata(Path(uri) / path).row_group(0)
        found |= {group.column(index).compression for index in range(group.num_columns)}
    return found


def _bounds(table: DeltaTable) -> frozenset[str]:
    """The columns of which the commit with most files logged bounds; none if it has a file without any."""
    log, most = Path(table.table_uri.removeprefix("file://")) / "_delta_log", list[dict[str, Any]]()
    for file in log.glob("*.json"):
        added = [json.loads(line)["add"] for line in file.read_text().splitlines() if line.startswith('{"add"')]
        most = max(most, added, key=len)
    least = [json.loads(file.get("stats") or "{}").get("minValues", {}) for file in most]
    return frozenset(column for values in least for column in _named(values)) if all(least) else frozenset()


def _named(values: Mapping[str, Any], path: str = "") -> Iterator[str]:
    for name, value in values.items():
        yield from _named(value, f"{path}{name}.") if isinstance(value, Mapping) else [f"{path}{name}"]


def _checksum(frame: DataFrame) -> tuple[int, int, int]:
    from pyspark.sql import functions as F

    row = F.xxhash64(*frame.columns)
    (found,) = frame.select(
        F.count("*"), F.coalesce(F.bit_xor(row), F.lit(0)), F.coalesce(F.sum(row.cast("decimal(38,0)")), F.lit(0))
    ).collect()
    return int(found[0]), int(found[1]), int(found[2])
