"""Rows of data files, filtered where they are read: DuckDB scans for Arrow and pandas, Polars for itself.

DuckDB evaluates the predicate over Parquet itself: row groups that can't match are skipped, columns that nobody wants
are not read, and what is in memory is a few row groups, and the result. Without a predicate Arrow does that alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds

from anabranch.serve.duckdb_pool import new_database, scanner
from anabranch.serve.predicates import Predicate
from anabranch.serve.pushdown import Pushdown

if TYPE_CHECKING:
    import duckdb
    import polars as pl

_BATCH = 65_536
"""Rows."""


@dataclass(frozen=True, slots=True)
class Scan:
    """What one read reads: ``columns`` of ``files``, which have those of ``schema``, where the predicate is true."""

    files: Sequence[str]
    schema: pa.Schema = field(hash=False)
    columns: Sequence[str]
    where: Predicate | None

    @property
    def result(self) -> pa.Schema:
        return pa.schema([self.schema.field(name) for name in self.columns])

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The rows, in the order of the files. Reads as it is drawn from, and no faster."""
        wanted = pa.schema([self.schema.field(name) for name in (self.columns if columns is None else columns)])
        if self.where is None and self.files:
            yield from self._dataset().to_batches(columns=wanted.names, batch_size=_BATCH)
        elif self.where is not None and self.files:
            yield from self._filtered(wanted, self.where)

    def _filtered(self, wanted: pa.Schema, where: Predicate) -> Iterator[pa.RecordBatch]:
        listed = ", ".join(map(_quoted, wanted.names)) or "NULL"
        # Footers that Arrow wrote don't tell of a NaN, which is greater than all numbers to DuckDB.
        source = "read_parquet($files, hive_partitioning = false, can_have_nan = true)"
        query = f"SELECT {listed} FROM {source} WHERE {where.duckdb}"  # noqa: S608 - from an allow-list
        with scanner() as connection:
            for batch in connection.sql(query, params={"files": list(self.files)}).to_arrow_reader(_BATCH):
                yield batch.cast(wanted) if wanted.names else batch

    def _dataset(self) -> ds.Dataset:
        # Whole column chunks are else fetched ahead: a tenth more memory, and no faster from a disk.
        options = ds.ParquetFragmentScanOptions(pre_buffer=False)
        kind = ds.ParquetFileFormat(default_fragment_scan_options=options)
        return ds.dataset(list(self.files), schema=self.schema, format=kind)

    def relation(self) -> duckdb.DuckDBPyRelation:
        """The rows as a relation of a connection that reaches these files through Arrow alone.

        DuckDB's own ``allowed_paths`` would let a ``COPY`` overwrite them (measured with 2.0.0).
        """
        connection = new_database()
        relation = connection.from_arrow(self._dataset() if self.files else self.schema.empty_table())
        if self.where is not None:
            relation = relation.filter(self.where.duckdb)
        relation = relation.project(", ".join(map(_quoted, self.columns)))
        # Settings are locked last: the relation's own query must not be able to open them again.
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        return relation

    def lazy(self) -> pl.LazyFrame:
        """The rows as Polars scans them, with what is asked of the frame later pushed down to Parquet. A predicate with
        a part that isn't plain is evaluated by DuckDB, and what is asked later over its rows, batch by batch."""
        if not self.files:
            return _polars_frame(self.result.empty_table()).lazy()
        if self.where is None:
            return self._scanned().select(self.columns)
        plain = Pushdown(self.schema, PolarsEngine()).whole(self.where.tree)
        if plain is not None:
            return self._scanned().filter(plain).select(self.columns)
        from polars.io.plugins import register_io_source

        names = _polars_frame(self.result.empty_table()).schema
        return register_io_source(self._for_polars, schema=names, validate_schema=True)

    def _scanned(self) -> pl.LazyFrame:
        import polars as pl

        schema = _polars_frame(self.schema.empty_table()).schema
        options: Any = {"missing_columns": "insert", "extra_columns": "ignore"}
        return pl.scan_parquet(list(self.files), schema=schema, hive_partitioning=False, glob=False, **options)

    def _for_polars(
        self, columns: list[str] | None, predicate: pl.Expr | None, limit: int | None, _size: int | None
    ) -> Iterator[pl.DataFrame]:
        # A predicate may name columns that the frame doesn't show: Polars asks for them, too.
        for batch in self.batches(columns or None):
            frame = _polars_frame(pa.Table.from_batches([batch]))
            frame = frame if predicate is None else frame.filter(predicate)
            if limit is not None:
                frame = frame.head(limit)
                limit -= frame.height
            yield frame
            if limit == 0:
                return


class PolarsEngine:
    """Expressions of Polars."""

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
