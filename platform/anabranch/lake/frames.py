"""Reads a table's rows from its data files: as a Spark DataFrame, without Spark's Delta reader, and in DuckDB's SQL."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import date
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from deltalake import DeltaTable

from anabranch.lake.log.delta_tables import data_path, folder_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# A file's partition value is the last folder of its path: it ends with the ten characters of a date, or there is none.
# Of bytes, because Spark walks through a text from its beginning, for each row: five times as long over ten million.
_DATE_OF_FILE = (
    "try_cast(CAST(substring(CAST(_metadata.file_path AS BINARY), "
    "octet_length(_metadata.file_path) - octet_length(_metadata.file_name) - 10, 10) AS STRING) AS DATE)"
)

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
    files' statistics decide for all rows of each file, Spark doesn't read the column for it. Without
    ``partition_column`` the rows don't have it: it costs each row some work.

    delta-rs already knows the files. Spark's Delta reader finds them with jobs over the log, which take three seconds
    in a cold engine. The partition value is taken from the file's path, as any other reader does.
    """
    files, decided = _files(table, wanted, at_most)
    rows = file_rows(spark, table, files, partition_column=partition_column)
    return rows if decided or at_most is None else rows.where(f"`{at_most[0]}` <= {int(at_most[1])}")


def file_rows(
    spark: SparkSession,
    table: DeltaTable,
    paths: Sequence[str],
    file_column: str = "",
    *,
    partition_column: bool = True,
) -> DataFrame:
    """The rows of these data files of ``table`` (paths relative to it). ``file_column`` names an additional column with
    the URI of each row's file."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType, StructType

    schema = StructType.fromJson(json.loads(table.schema().to_json()))
    partition_by = table.metadata().partition_columns
    stored = StructType([field for field in schema if field.name not in partition_by])
    if not partition_column:
        schema, partition_by = stored, []
    folder = folder_of(table)
    files = [str(data_path(folder, path)) for path in paths]
    if not files:
        return spark.createDataFrame([], schema.add(file_column, StringType()) if file_column else schema)
    reader = spark.read.schema(stored).option("recursiveFileLookup", "true").option("__globPaths__", "false")
    rows = reader.parquet(*files)
    if partition_by:
        rows = rows.withColumn(partition_by[0], F.expr(_DATE_OF_FILE))
    extra = [F.col("_metadata.file_path").alias(file_column)] if file_column else []
    return rows.select(*(F.col(f"`{name}`") for name in schema.names), *extra)


def _files(
    table: DeltaTable, wanted: Callable[[date | None], bool] | None, at_most: tuple[str, int] | None
) -> tuple[list[str], bool]:
    """The files that may have such rows, and whether their statistics say that each of their rows is ``at_most``."""
    listed = pa.table(table.get_add_actions(flatten=True))
    partition_by = table.metadata().partition_columns
    if partition_by and wanted is not None:
        days = listed[f"partition.{partition_by[0]}"].to_pylist()
        listed = listed.filter(pa.array([wanted(day) for day in days], pa.bool_()))
    if at_most is None:
        return listed["path"].to_pylist(), True
    column, largest = at_most
    paths, decided = list[str](), True
    known = (f"min.{column}", f"max.{column}", f"null_count.{column}")
    for path, least, greatest, nulls in zip(*_values(listed, "path", *known), strict=True):
        if least is None or least <= largest:
            paths.append(path)
            decided = decided and nulls == 0 and greatest is not None and greatest <= largest
    return paths, decided


def _values(listed: pa.Table, *columns: str) -> list[list[Any]]:
    """The values of each column; nulls for one that no file has."""
    known = set(listed.column_names)
    return [listed[name].to_pylist() if name in known else [None] * len(listed) for name in columns]


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
