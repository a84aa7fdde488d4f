"""SQL over the rows of a landing table, with DuckDB instead of Spark: for proofs, lists and counts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

from anabranch.ingest.landing.table.schema import EVENT_DATE
from anabranch.lake.frames import parquet_source
from anabranch.lake.log.delta_tables import data_paths


def landed_rows(table: DeltaTable, days: Sequence[date] | None = None) -> duckdb.DuckDBPyConnection:
    """A connection with a view ``rows`` of all rows of ``table``, or of those event dates; files are read by queries.

    Doesn't use ``to_pyarrow_dataset``: a process that has used it sometimes aborts when it exits. Compare times with
    ``epoch_us``: time zone arithmetic needs an extension that DuckDB would try to download.
    """
    files = data_paths(table, None if days is None else (EVENT_DATE, "in", list(days)))
    return rows_of_files(files) if files else no_rows(table)


def no_rows(table: DeltaTable) -> duckdb.DuckDBPyConnection:
    """A connection whose ``rows`` is empty, with the columns of ``table``."""
    connection = _connect()
    connection.register("rows", pa.schema(table.schema().to_arrow()).empty_table())
    return connection


def rows_of_files(files: Sequence[str | Path]) -> duckdb.DuckDBPyConnection:
    """A connection whose ``rows`` are those of some data files of a landing table, at least one."""
    connection = _connect()
    connection.execute(f"CREATE VIEW rows AS SELECT * FROM {parquet_source(files, EVENT_DATE)}")  # noqa: S608 - quoted
    return connection


def _connect() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'")
    return connection
