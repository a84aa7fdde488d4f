"""The rows of a landing table as SQL, without Spark: for proofs, lists and starting points."""

from __future__ import annotations

import duckdb
import pyarrow as pa
from deltalake import DeltaTable


def landed_rows(table: DeltaTable) -> duckdb.DuckDBPyConnection:
    """A connection in which ``rows`` is every row of ``table`` (without event_date), read from its files when asked.

    Not through ``to_pyarrow_dataset``: a process that has used it sometimes aborts when it exits. Times are compared
    by ``epoch_us``: arithmetic with time zones needs an extension that DuckDB would want to fetch.
    """
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'")
    files = [uri.removeprefix("file://") for uri in table.file_uris()]
    if files:
        connection.read_parquet(files, union_by_name=True, hive_partitioning=False).create_view("rows")
    else:
        connection.register("rows", pa.schema(table.schema().to_arrow()).empty_table())
    return connection
