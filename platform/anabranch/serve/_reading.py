"""``Reading``: one view, pinned at one cut, readable by every engine."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Literal, overload

import pyarrow as pa

from anabranch.certify.certificates import Certificate, newest_certificates
from anabranch.core.errors import AnabranchError, BadInput, TryAgain, root_cause
from anabranch.core.extras import needs_extras
from anabranch.core.settings import Settings
from anabranch.lake.cut import Cut
from anabranch.lake.landed import landed_cut
from anabranch.lake.layout import VersionRef
from anabranch.lake.log.commit_errors import unreadable_file
from anabranch.serve._file_pruning import may_match
from anabranch.serve._own_failures import READERS_INSTALLATION, read_failed, readers_own
from anabranch.serve._predicate_types import predicate_error
from anabranch.serve._predicates import Predicate
from anabranch.serve._scanning import Scan, scan_errors
from anabranch.serve._spark_failures import Watched, is_about_tables, watch_failures
from anabranch.serve.half_choice import BATCH, HalfName
from anabranch.serve.read_plan import ReadPlan
from anabranch.serve.reader_log import record_failed
from anabranch.views.model.definition import PARTITION_DATE, is_own
from anabranch.views.registered_definition import registered_view

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Freshness:
    """How new a reading is. ``behind``: how many landed epochs it doesn't cover yet."""

    committed: datetime
    age_seconds: float
    behind: int


class Reading:
    """One view at one cut. Timestamps are UTC, platform columns are hidden. The order of rows is not guaranteed.

    Nothing is read before a ``to_...`` method is called, and each call reads again. Where the platform reads
    (``to_arrow``, ``to_arrow_batches``, ``to_polars``, ``to_pandas``), a deleted file raises TryAgain READING_EXPIRED,
    and a corrupt one BrokenState FILE_UNREADABLE. Lazy results (``to_polars(lazy=True)``, ``to_duckdb``, ``to_spark``)
    are read by the engine when they are collected, and raise the engine's own error then. Any other error until the
    rows are in Arrow is BrokenState READ_FAILED, or ``READER...`` if the reader's side caused it. Failures are counted
    against the view's version, also those in Spark; failures of a lazy Polars frame or a DuckDB relation while they are
    collected aren't detected. An engine that isn't installed is BadInput EXTRA_MISSING.
    """

    def __init__(
        self, settings: Settings, view: str, plan: ReadPlan, where: Predicate | None, columns: Sequence[str]
    ) -> None:
        self._settings = settings
        self._plan = plan
        self._where = where
        self.view = view
        self.reader = ""
        """The reader's name; "" if the platform itself reads, whose failures aren't counted."""
        self.schema = pa.schema([plan.speed.schema.field(name) for name in columns])

    @property
    def version(self) -> int:
        return self._plan.version

    @property
    def _ref(self) -> VersionRef:
        return VersionRef(self._settings, self.view, self.version)

    @property
    def cut(self) -> Cut:
        """The position of the log that this reading covers: that of the speed table's newest commit."""
        return self._plan.cut

    @property
    def behind(self) -> Cut | None:
        """After a rollback: the newer position that this reader has seen of the other version. None: the reader hasn't
        seen anything newer than this reading."""
        return self._plan.behind

    @property
    def halves(self) -> Mapping[date | None, HalfName]:
        """The half that serves each partition; a kappa view has the one partition None."""
        return self._plan.halves

    @property
    def published(self) -> Mapping[date | None, Cut]:
        """For each partition that the batch half serves: the cut up to which it includes all events, late ones too. The
        other partitions include the on-time events up to ``cut``."""
        batch = self._plan.batch
        known = batch.published if batch is not None else {}
        return {day: known[day] for day, half in self.halves.items() if half == BATCH and day is not None}

    @cached_property
    def certificates(self) -> Mapping[date | None, Certificate]:
        """The newest certificate of each partition of this reading that has one."""
        found = newest_certificates(self._ref)
        return {day: certificate for day, certificate in found.items() if day in self.halves}

    @property
    def freshness(self) -> Freshness:
        """The freshness as of now, not as of the read: reads landing's newest commit again."""
        committed_ms = self._plan.speed.newest.commit_time_ms
        behind = sum(self.cut.behind(landed_cut(self._settings, self.cut.positions)).values())
        age = max(0.0, time.time() - committed_ms / 1000)
        return Freshness(datetime.fromtimestamp(committed_ms / 1000, UTC), age, behind)

    @cached_property
    def late_missing(self) -> int | None:
        """How many late events up to ``cut`` are in no half of this reading: their days were never published, or were
        published before these events landed. Computed on first access: reads landing's log, and files that hold such
        events. None if unknown: the version has no registered definition. Raises BrokenState LANDING_GONE,
        VIEW_RECORD."""
        if PARTITION_DATE not in self._plan.speed.schema.names:  # kappa: the stream includes late events
            return 0
        with needs_extras():  # it counts in landing, which other reads don't load
            from anabranch.compute.batch.missing_days import missing_at

        view, batch = registered_view(self._ref), self._plan.batch
        if view is None:
            return None
        return missing_at(self._settings, view, self.cut, batch.newest if batch is not None else None).late

    def to_arrow(self) -> pa.Table:
        return self._table("arrow")

    def to_arrow_batches(self) -> pa.RecordBatchReader:
        """Stream the rows in batches. The reader can be consumed once, by one thread at a time."""
        return self._batches("arrow")

    @overload
    def to_polars(self, *, lazy: Literal[False] = False) -> pl.DataFrame: ...

    @overload
    def to_polars(self, *, lazy: Literal[True]) -> pl.LazyFrame: ...

    @needs_extras()
    def to_polars(self, *, lazy: bool = False) -> pl.DataFrame | pl.LazyFrame:
        """``lazy``: nothing is read yet, and filters and projections of the frame are pushed down to the files."""
        import polars as pl

        if lazy:
            with self._counting("polars"):
                return self._scan().lazy()
        frame = pl.from_arrow(self._table("polars"))
        assert isinstance(frame, pl.DataFrame)  # noqa: S101 - a table never becomes a Series
        return frame

    @needs_extras()
    def to_pandas(self) -> pd.DataFrame:
        """With Arrow types, so that integers with nulls stay integers."""
        import pandas as pd

        frame: pd.DataFrame = self._table("pandas").to_pandas(types_mapper=pd.ArrowDtype)
        return frame

    @needs_extras()
    def to_duckdb(self) -> duckdb.DuckDBPyRelation:
        """Return a relation of its own connection, in UTC. It reads the files when it is executed, and its filters are
        pushed down to them. SQL over it can't reach other files or the network."""
        with self._counting("duckdb"):
            return self._scan().relation()

    @needs_extras()
    def to_spark(self, spark: SparkSession) -> DataFrame:
        """Spark reads the same versions of the same tables itself; no data goes through the driver. A missing or
        corrupt file raises Spark's own error when the rows are collected, and is counted as a failed read.

        Raises BadInput SESSION_UNFIT: ``spark`` can't read Delta tables, or was stopped; or ``where`` compares times,
        and its time zone isn't UTC."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
        from pyspark.sql import functions as F

        try:
            if self._where is not None and self._where.has_times(self._plan.speed.schema):
                _check_zone(spark)
            frames = [self._spark_table(spark, *table, days) for table, days in self._plan.tables().items()]
        except (PySparkException, Py4JError, OSError) as error:  # OSError: the JVM is gone
            raise self._spark_error(error) from error
        rows = reduce(lambda left, right: left.unionByName(right), frames)
        rows = rows.where(F.expr(self._where.spark)) if self._where else rows
        rows = rows.select(*map(_spark_name, self.schema.names))
        if self.reader and self._plan.route is not None:
            rows = watch_failures(spark, rows, Watched(self._ref, self.reader, self._plan.route, self._tables))
        return rows

    @property
    def _tables(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(uri for uri, _ in self._plan.tables()))

    def _spark_error(self, error: Exception) -> AnabranchError:
        if is_about_tables(str(error), self._tables):
            return self._failed("spark", error)
        return BadInput(
            "SESSION_UNFIT",
            f"this Spark session can't read {self.view} v{self.version}: {root_cause(error)}",
            state="nothing was read, and no failed read was counted",
            next_step="give one that runs and can read Delta tables, such as anabranch.core.engine.spark.session()",
            field="spark",
        )

    def _spark_table(self, spark: SparkSession, uri: str, version: int, days: Sequence[date | None]) -> DataFrame:
        from pyspark.sql import functions as F

        rows = spark.read.format("delta").option("versionAsOf", version).load(uri)
        if PARTITION_DATE in rows.columns:
            chosen = F.col(PARTITION_DATE).isin([day for day in days if day is not None])
            rows = rows.where(chosen | F.col(PARTITION_DATE).isNull() if None in days else chosen)
        return rows.select(*(_spark_name(name) for name in self._plan.speed.schema.names if is_own(name)))

    def _scan(self) -> Scan:
        known = pa.schema([f for f in self._plan.speed.schema if is_own(f.name)])
        files = self._plan.files()
        if self._where is not None:
            logs = [half.log for half in (self._plan.speed, self._plan.batch) if half is not None]
            files = may_match(self._where.tree, known, files, logs)
        return Scan(files, known, self.schema.names, self._where)

    def _table(self, engine: str) -> pa.Table:
        with self._counting(engine):
            return self._batches(engine).read_all()

    def _batches(self, engine: str) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self.schema, self._checked(engine))

    def _checked(self, engine: str) -> Iterator[pa.RecordBatch]:
        with self._counting(engine):
            yield from self._scan().batches()

    @contextmanager
    def _counting(self, engine: str) -> Iterator[None]:
        """Raise each error as one of ours, counted. One of ours was counted before, or is the reader's."""
        try:
            yield
        except (AnabranchError, *READERS_INSTALLATION):
            raise
        except Exception as error:
            raise self._failed(engine, error) from error

    def _failed(self, engine: str, error: Exception) -> AnabranchError:
        """Return the error as one of ours, counted unless the reader's side caused it."""
        if own := readers_own(f"{self.view} v{self.version}", error):
            return own
        failure = self._to_anabranch_error(engine, error)
        code, route = failure.code, self._plan.route
        if self.reader and route is not None and not isinstance(failure, BadInput):
            record_failed(self._ref, self.reader, code, engine=engine, route=route)
        return failure

    def _to_anabranch_error(self, engine: str, error: Exception) -> AnabranchError:
        if not self._plan.has_files():
            return TryAgain(
                "READING_EXPIRED",
                f"a file of {self.view} v{self.version} at {self.cut} was deleted",
                state="maintenance deletes old files after a while, and this reading is older",
                next_step="read the view again",
            )
        if str(error).startswith(_PREDICATE_ERRORS):
            return predicate_error(str(error))
        what = f"{self.view} v{self.version} at {self.cut}"
        known = isinstance(error, scan_errors()) or engine == "spark"
        return unreadable_file(what, error) if known else read_failed(what, error)


_PREDICATE_ERRORS = ("Conversion Error", "Out of Range Error", "Binder Error", "Mismatch Type Error")
"""Prefixes of DuckDB errors that come from the predicate and the values, not from an unreadable file."""


def _spark_name(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _check_zone(spark: SparkSession) -> None:
    """Raise BadInput SESSION_UNFIT unless the session's times are UTC, as every other engine's are."""
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    if zone not in _UTC:
        raise BadInput(
            "SESSION_UNFIT",
            f"where compares times, which are UTC, and this Spark session's time zone is {zone}",
            state="nothing was read",
            next_step="set spark.sql.session.timeZone to UTC before the call, or read without where and compare the "
            "times with Spark's own functions",
            field="spark",
        )


_UTC = ("UTC", "Etc/UTC", "Etc/UCT", "UCT", "Zulu", "Etc/Zulu", "Z", "GMT", "Etc/GMT", "UTC+0", "UTC+00:00", "+00:00")
