"""Shared DuckDB instances. Starting one takes 25 ms; a cursor of a running one is free.

The process keeps two: a parser for readers' predicates, without access to files or the network, and a scanner that
reads data files with queries rendered from an allow-list. Readers' SQL runs in neither.
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
    """Return a new instance that is not shared: no external extensions, time zone UTC."""
    import duckdb

    connection = duckdb.connect(config={"autoinstall_known_extensions": False, "autoload_known_extensions": False})
    # GLOBAL, so that it also holds in each cursor; the default is the machine's time zone. DuckDB 2 has time zones
    # built in.
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    return connection


def parser() -> duckdb.DuckDBPyConnection:
    """Return a cursor without access to files or the network."""
    with _lock:
        return _parser(os.getpid()).cursor()


def scanner() -> duckdb.DuckDBPyConnection:
    """Return a cursor that may read files. It doesn't cache their content."""
    with _lock:
        return _scanner(os.getpid()).cursor()


# Cached per process id. An instance inherited through a fork has lost its threads: using it hangs, and closing it is a
# segmentation fault, so the parent's stays in the cache.
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
