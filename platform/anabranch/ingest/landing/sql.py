"""The rows of a landing table as SQL, without Spark: for proofs, lists, counts and starting points."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path

import duckdb
import pyarrow as pa
from anabranch.ingest.landing.schema import EVENT_DATE
from deltalake import DeltaTable


def landed_rows(table: DeltaTable, days: Sequence[date] | None = None) -> duckdb.DuckDBPyConnection:
    """A connection in which ``rows`` is every row of ``table``, or of those event dates, read when asked.

    Not through ``to_pyarrow_dataset``: a process that has used it sometimes aborts when it exits. Times are compared
    by ``epoch_us``: arithmetic with time zones needs an extension that DuckDB would want to fetch.
    """
    files = table.file_uris(file_pruning_predicate=None if days is None else [(EVENT_DATE, "in", list(days))])
    if files:
        return rows_of_files([uri.removeprefix("file://") for uri in files])
    return no_rows(table)


def no_rows(table: DeltaTable) -> duckdb.DuckDBPyConnection:
    """A connection in which ``rows`` is empty, with the columns of ``table``."""
    connection = _connect()
    connection.register("rows", pa.schema(table.schema().to_arrow()).empty_table())
    return connection


def rows_of_files(files: Sequence[str | Path]) -> duckdb.DuckDBPyConnection:
    """The same for some data files of a landing table, at least one."""
    connection = _connect()
    listed = ", ".join("'" + str(file).replace("'", "''") + "'" for file in files)
    connection.execute(_ROWS.format(files=listed))
    return connection


def _connect() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'")
    return connection


_ROWS = f"""
    CREATE VIEW rows AS SELECT * FROM
    read_parquet([{{files}}], union_by_name=true, hive_partitioning=true, hive_types={{{{'{EVENT_DATE}': DATE}}}})"""  # noqa: S608 - the files of our own table, quoted
