"""SQL that joins the rows of two versions of a view and finds where they differ."""

# ruff: noqa: S608 - column names are quoted

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

from anabranch.lake.frames import parquet_source
from anabranch.lake.log.delta_tables import data_paths
from anabranch.views.model.definition import PARTITION_DATE

EXAMPLES = 5
"""How many differing cells are listed per column."""
# An author's column begins with a letter, so none has one of these names.
_HERE, _IN_OLD, _IN_NEW = "_here", "_in_old", "_in_new"
_MEMORY = "1GB"
"""Beyond it DuckDB uses its folder for temporary files."""


@contextmanager
def join_versions(
    tables: Sequence[DeltaTable], key: Sequence[str], columns: Sequence[str], *, summed: bool, partition: date | None
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a connection with the table ``joined``: one row per ``partition_date`` (null for a kappa view) and ``key``
    of either of the two ``tables`` (old, new), with which of them has it, and both values of each of ``columns``, or
    their sums."""
    with tempfile.TemporaryDirectory(prefix="anabranch-compare-") as folder, duckdb.connect() as connection:
        connection.execute("SET timezone = 'UTC'")
        connection.execute(f"SET memory_limit = '{_MEMORY}'")
        connection.execute(f"SET temp_directory = {_text(folder)}")
        _join(connection, tables, key, columns, summed=summed, partition=partition)
        yield connection


def _join(
    connection: duckdb.DuckDBPyConnection,
    tables: Sequence[DeltaTable],
    key: Sequence[str],
    columns: Sequence[str],
    *,
    summed: bool,
    partition: date | None,
) -> None:
    for name, table in zip(("old", "new"), tables, strict=True):
        schema = pa.schema(table.schema().to_arrow())
        day = PARTITION_DATE if PARTITION_DATE in schema.names else "NULL::date"
        values = (f"sum({_name(c)}) AS {_name(c)}" if summed else _name(c) for c in columns)
        picked = ", ".join([f"{day} AS {PARTITION_DATE}", *map(_name, key), *values, f"1 AS {_HERE}"])
        only = f" WHERE {PARTITION_DATE} = DATE '{partition}'" if partition else ""
        grouped = " GROUP BY ALL" if summed else ""
        source = _source(connection, name, table, schema)
        connection.execute(f"CREATE TABLE {name} AS SELECT {picked} FROM {source}{only}{grouped}")
    at = [PARTITION_DATE, *map(_name, key)]
    same = " AND ".join(f"o.{k} IS NOT DISTINCT FROM n.{k}" for k in at)
    keys = ", ".join(f"coalesce(o.{k}, n.{k}) AS {k}" for k in at)
    both = "".join(f", o.{_name(c)} AS {_old(c)}, n.{_name(c)} AS {_new(c)}" for c in columns)
    present = f"o.{_HERE} IS NOT NULL AS {_IN_OLD}, n.{_HERE} IS NOT NULL AS {_IN_NEW}"
    connection.execute(f"CREATE TABLE joined AS SELECT {keys}, {present}{both} FROM old o FULL JOIN new n ON {same}")


def count_partitions(rows: duckdb.DuckDBPyConnection) -> int:
    """Count the partitions of either version. A kappa view has one."""
    return int(rows.execute(f"SELECT count(*) FROM (SELECT DISTINCT {PARTITION_DATE} FROM joined)").fetchall()[0][0])


def differing_days(
    rows: duckdb.DuckDBPyConnection, columns: Sequence[str]
) -> list[tuple[date | None, int, int, int, Mapping[str, int]]]:
    """Return each day that differs: number of rows, rows only in the old version, rows only in the new one, and
    differing values per column."""
    counts = "".join(f", count_if({_differs(column)})" for column in columns)
    days = rows.execute(
        f"SELECT {PARTITION_DATE}, count(*), count_if(NOT {_IN_NEW}), count_if(NOT {_IN_OLD}){counts} "
        f"FROM joined GROUP BY {PARTITION_DATE} ORDER BY {PARTITION_DATE}"
    ).fetchall()
    counted = (
        (day, count, gone, new, {c: number for c, number in zip(columns, differing, strict=True) if number})
        for day, count, gone, new, *differing in days
    )
    return [each for each in counted if each[2] or each[3] or each[4]]


def differing_cells(
    rows: duckdb.DuckDBPyConnection, key: Sequence[str], columns: Sequence[str]
) -> list[tuple[date | None, Mapping[str, Any], str, Any, Any]]:
    """Return the first EXAMPLES differing cells per column: day, key, column, old and new value."""
    keys = ", ".join(map(_name, key))
    found: list[tuple[date | None, Mapping[str, Any], str, Any, Any]] = []
    for column in columns:
        cells = rows.execute(
            f"SELECT {PARTITION_DATE}, {_old(column)}, {_new(column)}, {keys} FROM joined "
            f"WHERE {_differs(column)} ORDER BY {PARTITION_DATE}, {keys} LIMIT {EXAMPLES}"
        ).fetchall()
        found += [(day, dict(zip(key, at, strict=True)), column, old, new) for day, old, new, *at in cells]
    return found


def _source(connection: duckdb.DuckDBPyConnection, name: str, table: DeltaTable, schema: pa.Schema) -> str:
    files = data_paths(table)
    if not files:
        connection.register(f"no_{name}", schema.empty_table())
        return f"no_{name}"
    return parquet_source(files, PARTITION_DATE if PARTITION_DATE in schema.names else None)


def _differs(column: str) -> str:
    return f"({_IN_OLD} AND {_IN_NEW} AND {_old(column)} IS DISTINCT FROM {_new(column)})"


def _old(column: str) -> str:
    return _name(f"old {column}")


def _new(column: str) -> str:
    return _name(f"new {column}")


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _name(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'
