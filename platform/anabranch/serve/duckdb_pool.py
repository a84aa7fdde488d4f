"""DuckDB instances: starting one costs 25 ms, a cursor of one that runs costs nothing.

The platform's own two are kept for the life of the process: one that parses what readers write and reaches nothing, and
one that scans data files by queries that were rendered from an allow-list. Readers' SQL runs in neither.
"""

from __future__ import annotations

import os
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

_lock = Lock()


def new_database() -> duckdb.DuckDBPyConnection:
    """An instance of one's own, without extensions from outside, in UTC."""
    import duckdb

    connection = duckdb.connect(config={"autoinstall_known_extensions": False, "autoload_known_extensions": False})
    # DuckDB 2 has its time zones built in: else it is the machine's, in each cursor, too.
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    return connection


def parser() -> duckdb.DuckDBPyConnection:
    """A cursor that reaches no file and no network."""
    with _lock:
        return _parser(os.getpid()).cursor()


def scanner() -> duckdb.DuckDBPyConnection:
    """A cursor that may read files. It keeps nothing of them in memory."""
    with _lock:
        return _scanner(os.getpid()).cursor()


# By process, and the parent's stays where it is: what a fork has taken over has lost its threads, so that using it
# waits for ever, and closing it ends in a segmentation fault.
@cache
def _parser(_process: int) -> duckdb.DuckDBPyConnection:
    connection = new_database()
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


@cache
def _scanner(_process: int) -> duckdb.DuckDBPyConnection:
    connection = new_database()
    connection.execute("SET enable_external_file_cache = false")
    connection.execute("SET lock_configuration = true")
    return connection
