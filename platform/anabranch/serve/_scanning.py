"""Scan the data files of one read, with predicate and columns pushed down. DuckDB scans for Arrow and pandas; Polars
scans itself.

DuckDB evaluates the predicate over Parquet: it skips row groups that can't match and columns that aren't needed, and
holds only a few row groups and the result in memory. Without a predicate Arrow scans alone.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds

from anabranch.serve._duckdb_pool import new_database, scanner
from anabranch.serve._predicates import Predicate
from anabranch.serve._pushdown import Pushdown

if TYPE_CHECKING:
    import duckdb
    import polars as pl

_BATCH = 65_536
"""Rows per batch."""


@dataclass(frozen=True, slots=True)
class Scan:
    """One scan: ``columns`` of ``files``, which have the given ``schema``, where the predicate is true."""

    files: Sequence[str]
    schema: pa.Schema = field(hash=False)
    columns: Sequence[str]
    where: Predicate | None

    @property
    def result(self) -> pa.Schema:
        return pa.schema([self.schema.field(name) for name in self.columns])

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows, in the order of the files. Reads only as fast as it is consumed."""
        wanted = pa.schema([self.schema.field(name) for name in (self.columns if columns is None else columns)])
        if self.where is None and self.files:
            yield from self._dataset().to_batches(columns=wanted.names, batch_size=_BATCH)
        elif self.where is not None and self.files:
            yield from self._filtered(wanted, self.where)

    def _filtered(self, wanted: pa.Schema, where: Predicate) -> Iterator[pa.RecordBatch]:
        listed = ", ".join(map(_quoted, wanted.names)) or "NULL"
        # Statistics in footers written by Arrow ignore NaN, which DuckDB sorts above all numbers.
        source = "read_parquet($files, hive_partitioning = false, can_have_nan = true)"
        query = f"SELECT {listed} FROM {source} WHERE {where.duckdb}"  # noqa: S608 - from an allow-list
        with scanner() as connection:
            for batch in connection.sql(query, params={"files": list(self.files)}).to_arrow_reader(_BATCH):
                yield batch.cast(wanted) if wanted.names else batch

    def _dataset(self) -> ds.Dataset:
        # By default whole column chunks are prefetched: a tenth more memory, and no faster from a disk.
        options = ds.ParquetFragmentScanOptions(pre_buffer=False)
        kind = ds.ParquetFileFormat(default_fragment_scan_options=options)
        return ds.dataset(list(self.files), schema=self.schema, format=kind)

    def relation(self) -> duckdb.DuckDBPyRelation:
        """Return the rows as a relation of a connection that reaches these files only through Arrow.

        DuckDB's own ``allowed_paths`` would let a ``COPY`` overwrite them (measured with 2.0.0).
        """
        connection = new_database()
        relation = connection.from_arrow(self._dataset() if self.files else self.schema.empty_table())
        if self.where is not None:
            relation = relation.filter(self.where.duckdb)
        relation = relation.project(", ".join(map(_quoted, self.columns)))
        # Settings are locked last, so that SQL over the relation can't change them back.
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        return relation

    def lazy(self) -> pl.LazyFrame:
        """Return the rows as a lazy Polars frame whose filters and projections are pushed down to Parquet. If a part of
        the predicate isn't portable, DuckDB evaluates the predicate, and Polars filters DuckDB's batches."""
        if not self.files:
            return _polars_frame(self.result.empty_table()).lazy()
        if self.where is None:
            return self._polars_scan().select(self.columns)
        portable = Pushdown(self.schema, PolarsEngine()).whole(self.where.tree)
        if portable is not None:
            return self._polars_scan().filter(portable).select(self.columns)
        from polars.io.plugins import register_io_source

        names = _polars_frame(self.result.empty_table()).schema
        return register_io_source(self._polars_batches, schema=names, validate_schema=True)

    def _polars_scan(self) -> pl.LazyFrame:
        import polars as pl

        schema = _polars_frame(self.schema.empty_table()).schema
        options: Any = {"missing_columns": "insert", "extra_columns": "ignore"}
        return pl.scan_parquet(list(self.files), schema=schema, hive_partitioning=False, glob=False, **options)

    def _polars_batches(
        self, columns: list[str] | None, predicate: pl.Expr | None, limit: int | None, _size: int | None
    ) -> Iterator[pl.DataFrame]:
        # ``columns`` includes those that only the predicate needs.
        for batch in self.batches(columns or None):
            frame = _polars_frame(pa.Table.from_batches([batch]))
            frame = frame if predicate is None else frame.filter(predicate)
            if limit is not None:
                frame = frame.head(limit)
                limit -= frame.height
            yield frame
            if limit == 0:
                return


def scan_errors() -> tuple[type[Exception], ...]:
    """What a scan raises for a file that is gone or corrupt, and when the process has no memory left. DuckDB isn't
    loaded if it wasn't needed."""
    duckdb = sys.modules.get("duckdb")
    own = (OSError, pa.ArrowInvalid, MemoryError)
    return own if duckdb is None else (*own, duckdb.Error)


class PolarsEngine:
    """Builds Polars expressions."""

    def column(self, name: str) -> Any:
        import polars as pl

        return pl.col(name)

    def constant(self, value: Any, kind: pa.DataType) -> Any:
        import polars as pl

        return pl.lit(value, dtype=pl.Series(pa.nulls(0, kind)).dtype)

    def is_null(self, column: Any) -> Any:
        return column.is_null()


def _polars_frame(rows: pa.Table) -> pl.DataFrame:
    import polars as pl

    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)  # noqa: S101 - a table never becomes a Series
    return frame


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
