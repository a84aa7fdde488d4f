"""Reads files with columns (CSV, Parquet, Avro) as canonical JSON, in chunks. DuckDB streams; nothing is held whole."""

from __future__ import annotations

import csv
import io
import zlib
from collections.abc import Iterator
from glob import escape
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.contracts import Topic
from anabranch.core.errors import root_cause
from anabranch.ingest.files._avro_blocks import avro_tables
from anabranch.ingest.files._column_json import check_columns, row_of_texts, row_of_values
from anabranch.ingest.files._json_lines import Unreadable, open_file

ROWS: Final = 10_000
"""In one chunk."""
_MAX_HEADER: Final = 1 << 20
_CHUNK: Final = 1 << 20
_CSV: Final = """
    FROM read_csv($file, auto_detect = false, header = true, delim = ',', quote = '"', escape = '"', nullstr = '',
        allow_quoted_nulls = false, strict_mode = true, compression = $packed, hive_partitioning = false,
        columns = {columns}{more})"""
_PARQUET: Final = "FROM read_parquet($file, hive_partitioning = false)"
_FAULTS: Final = (duckdb.Error, pa.ArrowException, OSError)
"""Of a file. Behind the first chunk, DuckDB's come from Arrow's reader, as OSError."""
_ERRORS: Final = {
    "MISSING COLUMNS": "too few cells",
    "TOO MANY COLUMNS": "too many cells",
    "UNQUOTED VALUE": "a quote that doesn't end",
    "LINE SIZE OVER MAXIMUM": "over 2 MB",
    "INVALID ENCODING": "no UTF-8 text",
    "INVALID UNICODE": "no UTF-8 text",
}


def csv_rows(path: Path, topic: Topic, *, packed: bool = False) -> Iterator[pa.Array]:
    """The rows of a CSV file with a header: commas, and double quotes around cells that need them. An empty cell is
    null, ``""`` an empty text. Raises Unreadable."""
    names = _header(path, packed=packed)
    check_columns(topic, names)
    columns = "{" + ", ".join(f"'{name}': 'VARCHAR'" for name in (n.replace("'", "''") for n in names)) + "}"
    # To DuckDB a file's name is a pattern, which may match others, too.
    given = {"file": escape(str(path)), "packed": "gzip" if packed else "none"}
    with _connect() as connection:
        query = f"SELECT {row_of_texts(topic, names)} AS value {_CSV.format(columns=columns, more='')}"
        try:
            yield from _values(connection, query, given)
        except _FAULTS as error:
            if packed:
                _check_packed(path)
            raise Unreadable(_csv_problem(connection, columns, given) or root_cause(error)) from error
    if packed:
        _check_packed(path)


def _check_packed(path: Path) -> None:
    """Raises Unreadable if the file is damaged: DuckDB doesn't look at checksums."""
    try:
        with open_file(path, packed=True) as file:
            while file.read(_CHUNK):
                pass
    except (OSError, EOFError, zlib.error) as error:
        raise Unreadable(f"it can't be read to its end: {error}") from error


def _header(path: Path, *, packed: bool) -> list[str]:
    try:
        with open_file(path, packed=packed) as file:
            begin = file.read(_MAX_HEADER)
        names = next(csv.reader(io.StringIO(begin.decode("utf-8-sig", "replace")), strict=True), [])
    except (OSError, EOFError, zlib.error, csv.Error) as error:
        raise Unreadable(f"its header can't be read: {error}") from error
    if not names or not all(names):
        raise Unreadable("its first line must name each column" if names else "it is empty: not even a header")
    return names


def _csv_problem(connection: duckdb.DuckDBPyConnection, columns: str, given: dict[str, str]) -> str:
    """What is wrong with its lines, each kind once; empty if that can't be found."""
    try:
        rejecting = _CSV.format(columns=columns, more=", store_rejects = true")
        connection.execute(f"SELECT count(*) {rejecting}", given).fetchall()
        found = connection.execute(
            "SELECT error_type::VARCHAR, count(DISTINCT line), min(line) FROM reject_errors GROUP BY 1 ORDER BY 3"
        ).fetchall()
    except duckdb.Error:
        return ""
    return "; ".join(
        f"{count:,} line{'s have' if count > 1 else ' has'} {_ERRORS.get(kind, kind.lower())} (the first: {line})"
        for kind, count, line in found
    )


def parquet_rows(path: Path, topic: Topic) -> Iterator[pa.Array]:
    """The rows of a Parquet file. Raises Unreadable."""
    try:
        schema = pq.read_schema(path)
        check_columns(topic, schema.names)
        with _connect() as connection:
            query = f"SELECT {row_of_values(topic, schema)} AS value {_PARQUET}"
            yield from _values(connection, query, {"file": escape(str(path))})
    except _FAULTS as error:
        raise Unreadable(root_cause(error)) from error


def avro_rows(path: Path, topic: Topic) -> Iterator[pa.Array]:
    """The rows of an Avro container file. Raises Unreadable."""
    try:
        with _connect() as connection:
            query = ""
            for table in avro_tables(path):
                check_columns(topic, table.schema.names)
                query = query or f"SELECT {row_of_values(topic, table.schema)} AS value FROM block"  # noqa: S608
                connection.register("block", table)
                yield from _values(connection, query, {})
    except _FAULTS as error:
        raise Unreadable(root_cause(error)) from error


def _connect() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"autoinstall_known_extensions": False, "threads": 2})
    connection.execute("SET timezone = 'UTC'")
    connection.execute("SET memory_limit = '1GB'")
    connection.execute("SET arrow_large_buffer_size = true")  # a chunk may have more than 2 GB
    return connection


def _values(connection: duckdb.DuckDBPyConnection, query: str, given: dict[str, str]) -> Iterator[pa.Array]:
    for batch in connection.sql(query, params=given).to_arrow_reader(ROWS):
        yield batch.column(0).cast(pa.large_binary())
