"""Serve: read a view, with the same rows for every engine.

In: a view's name, optionally a version, a predicate, columns, days, and a reader's name. Out: a ``Reading``, pinned to
one version and one cut, for Spark, Polars, DuckDB, pandas or Arrow.

``read_api`` takes the request. ``routes`` says which version the reader gets, ``served_versions`` which ones exist, and
``table_snapshots`` which files each half has; ``half_choice`` picks the half of each partition, and ``read_plan`` pins
the result. ``predicates`` parses and validates the reader's ``where``; ``pushdown`` and ``file_pruning`` skip files by
it; ``reading`` and ``scanning`` read the rows, with DuckDB instances from ``duckdb_pool``. ``reader_log``,
``named_readers`` and ``spark_failures`` record what migrations and retirements need to know. ``retirement`` takes
versions out of service.
"""

from anabranch.serve.read_api import read, read_untracked
from anabranch.serve.reading import Freshness, Reading

__all__ = ["Freshness", "Reading", "read", "read_untracked"]
