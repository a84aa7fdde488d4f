"""Data files of a table before they are committed: Parquet below the table's folder, which no reader sees yet.

In: a DataFrame of Spark, or Arrow batches. Out: ``StagedFile`` records with path, size, partition and statistics, which
``lake.commits`` adds to the table. ``_staging`` writes and describes the files, ``_statistics`` reads the bounds of
their columns from Parquet's footers. What was staged by a killed process is deleted by maintenance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if TYPE_CHECKING:
    from anabranch.lake.files._staging import (
        BUILDS,
        NULL_PARTITION,
        StagedFile,
        add_actions,
        describe,
        parquet_file,
        restage,
        stage_arrow,
        stage_frame,
        stage_links,
    )
    from anabranch.lake.files._statistics import float_columns, footer_bounds, footer_columns
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "_staging": (
                "BUILDS",
                "NULL_PARTITION",
                "StagedFile",
                "add_actions",
                "describe",
                "parquet_file",
                "restage",
                "stage_arrow",
                "stage_frame",
                "stage_links",
            ),
            "_statistics": ("float_columns", "footer_bounds", "footer_columns"),
        },
    )

__all__ = [
    "BUILDS",
    "NULL_PARTITION",
    "StagedFile",
    "add_actions",
    "describe",
    "float_columns",
    "footer_bounds",
    "footer_columns",
    "parquet_file",
    "restage",
    "stage_arrow",
    "stage_frame",
    "stage_links",
]
