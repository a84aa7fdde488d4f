"""Reads a table's rows from its data files: as a Spark DataFrame, without Spark's Delta reader, and in DuckDB's SQL."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import date
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from deltalake import DeltaTable

from anabranch.lake._spark_relation import rows_in_files
from anabranch.lake.files import footer_bounds, parquet_file
from anabranch.lake.log.delta_tables import data_path, folder_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FOOTERS_AT_ONCE: Final = 8
_FILE: Final = "_anabranch_file"


def table_rows(
    spark: SparkSession,
    table: DeltaTable,
    wanted: Callable[[date | None], bool] | None = None,
    *,
    at_most: tuple[str, int] | None = None,
    partition_column: bool = True,
) -> DataFrame:
    """The rows of ``table`` at the version that it was opened at. ``wanted`` selects values of the partition column (a
    date); files of other partitions aren't opened. ``at_most``: an integer column and its largest value; where the
    files' footers decide for all rows of each file, Spark doesn't read the column for it. The table's log, which other
    writers may have given wrong bounds, isn't asked. Without ``partition_column`` the rows don't have it: it takes
    some calls of Spark for each folder.

    delta-rs already knows the files. Spark's Delta reader finds them with jobs over the log, which take three seconds
    in a cold engine. The partition value is taken from the file's path, as any other reader does.
    """
    files = _files(table, wanted)
    if at_most is None:
        return file_rows(spark, table, files, partition_column=partition_column)
    column, largest = at_most
    files, decided = _files_at_most(table, files, column, largest)
    rows = file_rows(spark, table, files, partition_column=partition_column)
    return rows if decided else rows.where(f"`{column}` <= {int(largest)}")


def file_rows(
    spark: SparkSession,
    table: DeltaTable,
    paths: Sequence[str],
    file_column: str = "",
    *,
    partition_column: bool = True,
) -> DataFrame:
    """The rows of these data files of ``table`` (paths relative to it). ``file_column`` names an additional column with
    the URI of each row's file. Raises BrokenState FILE_UNREADABLE if one is missing."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType, StructType

    schema = StructType.fromJson(json.loads(table.schema().to_json()))
    partition_by, folder = table.metadata().partition_columns, folder_of(table)
    stored = StructType([field for field in schema if field.name not in partition_by])
    if not partition_column:
        schema, partition_by = stored, []
    if not paths:
        return spark.createDataFrame([], schema.add(file_column, StringType()) if file_column else schema)
    files = [data_path(folder, path) for path in paths]
    values = {file.parent: _date_of(str(file)) for file in files} if partition_by else {}
    partition = StructType([field for field in schema if field.name in partition_by])
    rows = rows_in_files(spark, files, stored, partition, values)
    extra = [F.col("_metadata.file_path").alias(file_column)] if file_column else []
    return rows.select(*(F.col(f"`{name}`") for name in schema.names), *extra)


def _files(table: DeltaTable, wanted: Callable[[date | None], bool] | None) -> list[str]:
    """The files of the wanted partitions, by the log and by their paths."""
    listed = pa.table(table.get_add_actions(flatten=True))
    paths: list[str] = listed["path"].to_pylist()
    partition_by = table.metadata().partition_columns
    if not partition_by or wanted is None:
        return paths
    days = listed[f"partition.{partition_by[0]}"].to_pylist()
    return [path for path, day in zip(paths, days, strict=True) if wanted(day) and wanted(_date_of(path))]


def _date_of(path: str) -> date | None:
    """The date that the name of a file's folder ends with; None for the partition without one."""
    with suppress(ValueError):
        return date.fromisoformat(path.rpartition("/")[0][-10:])
    return None


def _files_at_most(table: DeltaTable, paths: Sequence[str], column: str, largest: int) -> tuple[list[str], bool]:
    """The files that may have rows with at most ``largest``, and whether their footers say so of each of their rows."""
    folder = folder_of(table)
    with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
        known = pool.map(lambda path: _bounds(data_path(folder, path), column), paths)
        kept = [(path, bounds) for path, bounds in zip(paths, known, strict=True) if not bounds or bounds[0] <= largest]
    decided = all(bounds is not None and bounds[1] <= largest and not bounds[2] for _, bounds in kept)
    return [path for path, _ in kept], decided


def _bounds(file: Path, column: str) -> tuple[int, int, int] | None:
    with suppress(OSError, pa.ArrowInvalid), parquet_file(file) as opened:  # who reads its rows reports it
        return footer_bounds(opened.metadata, column)
    return None


def parquet_source(files: Sequence[str | Path], partition_by: str | None) -> str:
    """SQL of DuckDB for the rows of a table's ``files`` (at least one), with the date ``partition_by`` of each file's
    own folder as a column; with the columns that the files have, if it is None.

    DuckDB takes each folder ``name=value`` of a path for a partition, in place of the column of that name. Where a
    folder above the table is called so (a home below ``epoch=7``), the date comes from an expression over the path, and
    no file is skipped by it.
    """
    listed = ", ".join(_text(escape(str(file))) for file in files)  # a name is a pattern to DuckDB
    read = f"read_parquet([{listed}], union_by_name=true, hive_partitioning="
    if partition_by is None:
        return f"{read}false)"
    if not any("=" in str(file).rsplit("/", 2)[0] for file in files):
        return f"{read}true, hive_types={{'{partition_by}': DATE}})"
    value = f"try_cast(regexp_extract({_FILE}, '/{partition_by}=([^/]*)/[^/]*$', 1) AS DATE)"
    rows = f"SELECT * EXCLUDE ({_FILE}), {value} AS {partition_by}"
    return f"({rows} FROM {read}false, filename='{_FILE}'))"


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
