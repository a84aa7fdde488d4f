"""One view, pinned at one cut, for every engine."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, overload

import pyarrow as pa

from anabranch.certify.certificates import Certificate, newest_certificates
from anabranch.compute.batch.missing_days import missing_at
from anabranch.core.errors import AnabranchError, BadInput, TryAgain
from anabranch.core.settings import Settings
from anabranch.lake import Cut, latest_commit
from anabranch.lake.commit_errors import unreadable_file
from anabranch.lake.layout import landing_table
from anabranch.serve.file_pruning import may_match
from anabranch.serve.half_choice import BATCH, SPEED, HalfName
from anabranch.serve.predicates import Predicate, refused
from anabranch.serve.read_plan import ReadPlan
from anabranch.serve.reader_log import record_failed
from anabranch.serve.scanning import Scan
from anabranch.serve.spark_failures import watched
from anabranch.views.definition import PARTITION_DATE, is_own
from anabranch.views.registered_definition import registered_view

if TYPE_CHECKING:
    import duckdb
    import pandas as pd  # type: ignore[import-untyped]
    import polars as pl
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Freshness:
    """How new a reading is. ``behind``: epochs that have been landed and that it doesn't cover yet."""

    committed: datetime
    age_seconds: float
    behind: int


class Reading:
    """One view at one cut. Timestamps are UTC, platform columns are hidden, rows come in no promised order.

    Nothing is read before a ``to_...`` is called, and each call reads again. Where the platform reads (``to_arrow``,
    ``to_arrow_batches``, ``to_polars``, ``to_pandas``), a file that was cleaned up since is TryAgain READING_EXPIRED, a
    torn one BrokenState FILE_UNREADABLE. What is lazy (``to_polars(lazy=True)``, ``to_duckdb``, ``to_spark``) is read
    by the engine when it is collected, and raises the engine's own error then. Failures are counted against the view's
    version, Spark's too; those of a lazy frame of Polars or of a relation of DuckDB can't be seen.
    """

    def __init__(
        self, settings: Settings, view: str, pinned: ReadPlan, where: Predicate | None, columns: Sequence[str]
    ) -> None:
        self._settings = settings
        self._pinned = pinned
        self._where = where
        self.view = view
        self.led = ""
        """The name of the reader whom a route has led here."""
        self.schema = pa.schema([pinned.speed.schema.field(name) for name in columns])

    @property
    def version(self) -> int:
        return self._pinned.version

    @property
    def cut(self) -> Cut:
        """What this reading covers: the position of the log of the newest commit of the speed layer."""
        return self._pinned.cut

    @property
    def behind(self) -> Cut | None:
        """The newer position that this reader has seen before, of the version that a rollback took it back from. None:
        this reading is no older than any before it."""
        return self._pinned.behind

    @property
    def halves(self) -> Mapping[date | None, HalfName]:
        """The half that serves each partition; a kappa view has the one partition None."""
        return self._pinned.halves

    @cached_property
    def certificates(self) -> Mapping[date | None, Certificate]:
        """The newest certificate of each partition of this reading that has one."""
        found = newest_certificates(self._settings, self.view, self.version)
        return {day: certificate for day, certificate in found.items() if day in self.halves}

    @property
    def freshness(self) -> Freshness:
        """As of now, not as of the read: it looks at landing again."""
        committed_ms = self._pinned.speed.newest.commit_time_ms
        landed = [latest_commit(landing_table(self._settings, topic)) for topic in self.cut.positions]
        behind = sum(
            max(0, found.note.cut.epoch(topic) - self.cut.epoch(topic))
            for topic, found in zip(self.cut.positions, landed, strict=True)
            if found is not None
        )
        age = max(0.0, time.time() - committed_ms / 1000)
        return Freshness(datetime.fromtimestamp(committed_ms / 1000, UTC), age, behind)

    @cached_property
    def late_missing(self) -> int | None:
        """How many late events up to ``cut`` no half of this reading holds: their days were never published, or were
        before they landed. Nothing of it is computed before it is asked for: that costs a look into landing's log, and
        into files that hold such events. None where it can't be told: no definition of this version is written down.
        BrokenState LANDING_GONE, VIEW_RECORD."""
        if PARTITION_DATE not in self._pinned.speed.schema.names:  # kappa: its stream has the late events, too
            return 0
        view, batch = registered_view(self._settings, self.view, self.version), self._pinned.batch
        if view is None:
            return None
        return missing_at(self._settings, view, self.cut, batch.newest if batch is not None else None).late

    def to_arrow(self) -> pa.Table:
        return self._table("arrow")

    def to_arrow_batches(self) -> pa.RecordBatchReader:
        """The rows batch by batch, read as they are drawn: only once, by one thread at a time."""
        return self._batches("arrow")

    @overload
    def to_polars(self, *, lazy: Literal[False] = False) -> pl.DataFrame: ...

    @overload
    def to_polars(self, *, lazy: Literal[True]) -> pl.LazyFrame: ...

    def to_polars(self, *, lazy: bool = False) -> pl.DataFrame | pl.LazyFrame:
        """``lazy``: nothing is read yet, and what is asked of the frame (rows, columns) is pushed down to the files."""
        import polars as pl

        if lazy:
            return self._scan().lazy()
        frame = pl.from_arrow(self._table("polars"))
        assert isinstance(frame, pl.DataFrame)  # noqa: S101 - a table never becomes a Series
        return frame

    def to_pandas(self) -> pd.DataFrame:
        """With Arrow's own types, so that whole numbers with gaps stay whole numbers."""
        import pandas as pd

        frame: pd.DataFrame = self._table("pandas").to_pandas(types_mapper=pd.ArrowDtype)
        return frame

    def to_duckdb(self) -> duckdb.DuckDBPyRelation:
        """A relation of a connection of its own, in UTC, that reads the files when it is executed, and what it is
        filtered by is pushed down to them. SQL over it can't reach any other file, nor the network."""
        return self._scan().relation()

    def to_spark(self, spark: SparkSession) -> DataFrame:
        """Read by Spark itself, from the same versions of the same tables; nothing goes through the driver. A file that
        is gone or torn is Spark's own error when the rows are drawn, and is counted as a failed read."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException
        from pyspark.sql import functions as F

        halves = [half for half in (SPEED, BATCH) if half in self.halves.values()] or [SPEED]
        try:
            frames = [self._spark_half(spark, half) for half in halves]
        except (PySparkException, Py4JJavaError) as error:
            raise self._failed("spark", error) from error
        rows = frames[0] if len(frames) == 1 else frames[0].unionByName(frames[1])
        rows = rows.where(F.expr(self._where.spark)) if self._where else rows
        rows = rows.select(*map(_spark_name, self.schema.names))
        return watched(spark, rows, self._spark_failed) if self.led else rows

    def _spark_failed(self, text: str) -> None:
        self._failed("spark", OSError(text))

    def _spark_half(self, spark: SparkSession, half: HalfName) -> DataFrame:
        from pyspark.sql import functions as F

        source = self._pinned.batch if half == BATCH and self._pinned.batch else self._pinned.speed
        rows = spark.read.format("delta").option("versionAsOf", source.version).load(source.uri)
        if PARTITION_DATE in rows.columns:
            days = [day for day, name in self.halves.items() if name == half]
            chosen = F.col(PARTITION_DATE).isin([day for day in days if day is not None])
            rows = rows.where(chosen | F.col(PARTITION_DATE).isNull() if None in days else chosen)
        return rows.select(*(_spark_name(name) for name in self._pinned.speed.schema.names if is_own(name)))

    def _scan(self) -> Scan:
        known = pa.schema([f for f in self._pinned.speed.schema if is_own(f.name)])
        files = self._pinned.files()
        if self._where is not None:
            logs = [half.log for half in (self._pinned.speed, self._pinned.batch) if half is not None]
            files = may_match(self._where.tree, known, files, logs)
        return Scan(files, known, self.schema.names, self._where)

    def _table(self, engine: str) -> pa.Table:
        return self._batches(engine).read_all()

    def _batches(self, engine: str) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self.schema, self._checked(self._scan().batches(), engine))

    def _checked(self, batches: Iterator[pa.RecordBatch], engine: str) -> Iterator[pa.RecordBatch]:
        import duckdb

        try:
            yield from batches
        except (OSError, pa.ArrowInvalid, duckdb.Error) as error:
            raise self._failed(engine, error) from error

    def _failed(self, engine: str, error: Exception) -> AnabranchError:
        """The error as one of ours; it is counted, unless the reader's predicate is to blame."""
        failure = self._failure(error)
        if self.led and not isinstance(failure, BadInput):
            code, route = failure.code, self._pinned.route
            record_failed(self._settings, self.view, self.version, self.led, code, engine=engine, route=route)
        return failure

    def _failure(self, error: Exception) -> AnabranchError:
        if not all(Path(file).exists() for file in self._pinned.files()):
            return TryAgain(
                "READING_EXPIRED",
                f"a file of {self.view} v{self.version} at {self.cut} is gone",
                state="old files were cleaned up after this reading was made",
                next_step="read the view again",
            )
        if str(error).startswith(_OF_THE_PREDICATE):
            return refused(str(error))
        return unreadable_file(f"{self.view} v{self.version} at {self.cut}", error)


_OF_THE_PREDICATE = ("Conversion Error", "Out of Range Error", "Binder Error", "Mismatch Type Error")
"""How DuckDB's errors begin that a value in a file, or in the predicate, gives rise to: not the file itself."""


def _spark_name(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
