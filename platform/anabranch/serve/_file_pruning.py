"""File pruning: skip the files of a snapshot that can't match a predicate, by the statistics in the Delta log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import reduce
from operator import and_
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as fs

from anabranch.serve._pushdown import Pushdown
from anabranch.serve.table_snapshots import column_of

_MILLISECOND: Final = timedelta(milliseconds=1)
"""Delta writers truncate upper bounds of timestamps to milliseconds, so the true maximum may be up to this much
higher."""


class ArrowEngine:
    """Builds expressions of Arrow datasets."""

    def column(self, name: str) -> ds.Expression:
        return ds.field(name)

    def constant(self, value: Any, kind: pa.DataType) -> ds.Expression:
        return ds.scalar(pa.scalar(value, kind))

    def is_null(self, column: ds.Expression) -> ds.Expression:
        return column.is_null()


def may_match(tree: Mapping[str, Any], schema: pa.Schema, files: Sequence[str], logs: Sequence[pa.Table]) -> list[str]:
    """Return those of ``files`` that may hold a row that matches the predicate ``tree``, in their order. ``logs``: the
    files' statistics, as in ``Snapshot.log``; a file without statistics may hold any row."""
    wanted = Pushdown(schema, ArrowEngine()).implied(tree)
    if wanted is None:
        return list(files)
    named = {name.lower() for name in _columns_of(tree)}
    columns = [field for field in schema if field.name.lower() in named]
    bounds = {path: bound for log in logs for path, bound in _file_bounds(log, columns)}
    kind, disk = ds.ParquetFileFormat(), fs.LocalFileSystem()
    fragments = [kind.make_fragment(path, disk, bounds[path]) for path in files]
    return [fragment.path for fragment in ds.FileSystemDataset(fragments, schema, kind, disk).get_fragments(wanted)]


def _columns_of(node: Any) -> set[str]:
    """Return the columns that a predicate names."""
    if isinstance(node, Mapping):
        own = set(node["column_names"]) if node.get("class") == "COLUMN_REF" else set()
        return own.union(*map(_columns_of, node.values()))
    return set().union(*map(_columns_of, node)) if isinstance(node, list) else set()


def _file_bounds(log: pa.Table, columns: Sequence[pa.Field]) -> Iterator[tuple[str, ds.Expression]]:
    """Yield each file with a condition that all of its rows fulfil."""
    rows = column_of(log, "num_records")
    bounds = [ds.scalar(True)] * log.num_rows
    for field in columns:
        low, high, nulls = (column_of(log, kind, field.name) for kind in ("min", "max", "null_count"))
        for number, statistics in enumerate(zip(low, high, nulls, rows, strict=True)):
            bounds[number] = bounds[number] & _column_bounds(field, *statistics)
    yield from zip(log["path"].to_pylist(), bounds, strict=True)


def _column_bounds(field: pa.Field, low: Any, high: Any, nulls: int | None, rows: int | None) -> ds.Expression:
    column = ds.field(field.name)
    if nulls is not None and nulls == rows:
        return column.is_null()
    if low is None or high is None:
        return ds.scalar(True)
    bounds = [column >= pa.scalar(low, field.type)]
    if (most := _at_most(high)) is not None:
        bounds.append(column <= pa.scalar(most, field.type))
    if nulls == 0:
        return reduce(and_, bounds, column.is_valid())
    # Arrow only prunes by single bounds, so each bound has its own "or null".
    return reduce(and_, (bound | column.is_null() for bound in bounds))


def _at_most(high: Any) -> Any | None:
    """The value that no row exceeds; None if it can't be represented: in the last millisecond of the year 9999."""
    try:
        return high + _MILLISECOND if isinstance(high, datetime) else high
    except OverflowError:
        return None
