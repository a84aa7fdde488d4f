"""Selection: which landed events a view's function gets, and which partitions they touch.

In: a view, its landing tables and a cut. Out: DataFrames for the function, partitions, and counts.

1. ``inputs`` selects the events of a view at a cut, or as a stream, and applies the function;
2. ``upcast_select`` reads them in the newest contract version;
3. ``partitions`` says which partitions events affect, ``partition_events`` how many events each has, ``row_sources``
   which events can be behind a row;
4. ``dry_run`` looks for the first event that a failing function fails on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = ["dry_run", "inputs", "partition_events", "partitions", "row_sources", "upcast_select"]
