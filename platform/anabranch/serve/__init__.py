"""Serve: read a view, with the same rows for every engine.

In: a view's name, optionally a version, a predicate, columns, days, and a reader's name. Out: a ``Reading``, pinned to
one version and one cut, for Spark, Polars, DuckDB, pandas or Arrow.

``_read_api`` takes the request. ``routes`` stores which version each reader gets, ``_reader_places`` where readers are
among the versions, ``served_versions`` which versions exist, ``table_snapshots`` which files each half has
(``open_tables`` keeps tables open between reads), and ``_batch_at_cut`` those of the batch half as of a cut;
``half_choice`` picks the half of each partition, and ``read_plan`` pins the result. ``_predicates`` parses and
validates the reader's ``where``, and ``_predicate_types`` (with ``_zone_names``) refuses what engines read in
different ways; ``_pushdown`` and ``_file_pruning`` skip files by it; ``_reading`` and ``_scanning`` read the rows,
with DuckDB instances from ``_duckdb_pool``. ``reader_log``, ``_named_readers`` and ``_spark_failures`` record what
migrations and retirements need to know, ``_own_failures`` says what isn't a version's fault. ``retirement`` takes
versions out of service.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if TYPE_CHECKING:
    from anabranch.serve._read_api import read, read_untracked
    from anabranch.serve._reading import Freshness, Reading
else:
    __getattr__, __dir__ = lazy_exports(
        __name__, {"_read_api": ("read", "read_untracked"), "_reading": ("Freshness", "Reading")}
    )

__all__ = [
    "Freshness",
    "Reading",
    "half_choice",
    "open_tables",
    "read",
    "read_plan",
    "read_untracked",
    "reader_log",
    "retirement",
    "routes",
    "served_versions",
    "table_snapshots",
]
