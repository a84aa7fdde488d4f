"""Loads files of history into landing: Parquet, CSV, JSON lines and Avro, from folders or S3 (ADR 0042).

In: files. Out: epochs of their own in a landing table, whose valid rows have the decision ``loaded``. The order:

1. ``_load_files`` takes the files one after the other (``_addresses``: which; ``_remote``: copies those in S3;
   ``_store_away``: waits for a store that is away);
2. ``_prepare`` reads a whole file into rows of bytes: ``_json_lines``, or ``_columns`` with ``_column_json`` (Parquet,
   CSV, and Avro by ``_avro_blocks``, or row by row by ``_avro_rows``). What can't be read to its end is refused here;
3. ``_file_epochs`` decodes some hundred thousand rows at a time and commits them. After a kill it goes on where it was;
4. ``_problems`` counts what is wrong with rows, in the words of their format.

``_dry_run`` says what landing would decide about the rows of a file, or about records of the log, and lands nothing.
``_sample`` reads rows for a contract to be inferred from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if TYPE_CHECKING:
    from anabranch.ingest.files._addresses import find_files
    from anabranch.ingest.files._dry_run import DryRun, lines_of, rows_of_file, try_records, try_rows
    from anabranch.ingest.files._load_files import REPORT, FileReport, LoadReport, StoredReport, check_loadable, load
    from anabranch.ingest.files._sample import sample_lines
    from anabranch.ingest.files._store_away import Patience, waiting_loads
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "_addresses": ("find_files",),
            "_dry_run": ("DryRun", "lines_of", "rows_of_file", "try_records", "try_rows"),
            "_load_files": ("FileReport", "LoadReport", "REPORT", "StoredReport", "check_loadable", "load"),
            "_sample": ("sample_lines",),
            "_store_away": ("Patience", "waiting_loads"),
        },
    )

__all__ = [
    "REPORT",
    "DryRun",
    "FileReport",
    "LoadReport",
    "Patience",
    "StoredReport",
    "check_loadable",
    "find_files",
    "lines_of",
    "load",
    "rows_of_file",
    "sample_lines",
    "try_records",
    "try_rows",
    "waiting_loads",
]
