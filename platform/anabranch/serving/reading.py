"""``anabranch.read``: one view, pinned at one cut, for every engine."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, overload

import pyarrow as pa

from anabranch.batch.missing import missing_beside
from anabranch.errors import AnabranchError, BadInput, BrokenState, TryAgain
from anabranch.reconcile.certificates import Certificate, newest_certificates
from anabranch.serving import failed_reads, named_readers
from anabranch.serving.choice import BATCH, SPEED, HalfName, checked_prefer
from anabranch.serving.pinning import Pinned, led_to, pin, reader_name
from anabranch.serving.predicates import Predicate, parse_predicate, refused
from anabranch.serving.pruning import may_match
from anabranch.serving.scanning import Scan
from anabranch.settings import Settings, load_settings
from anabranch.tables import Cut, newest
from anabranch.tables.layout import landing_table
from anabranch.tables.refused import unreadable_file
from anabranch.views.definition import PARTITION, is_own
from anabranch.views.written import written_view

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


def read(
    view: str,
    version: int | None = None,
    settings: Settings | None = None,
    where: str | None = None,
    prefer: str = "default",
    partitions: Collection[date] | None = None,
    reader: str | None = None,
    columns: Sequence[str] | None = None,
) -> Reading:
    """The rows of ``view`` as they are now: the same ones for every engine, from then on unchanged.

    ``version``: without one, the one that the view's route has for ``reader`` (whoever reads, by a name that stays;
    else the setting ``reader``, else user@host); without a route, the oldest that covers anything. ``where``: an SQL
    predicate over the view's columns. ``prefer``: which half serves a partition (``serving.choice``). ``partitions``:
    only these days. ``columns``: only these, in this order. Files and row groups that can't hold a row that is wanted,
    and columns that aren't, are not read; memory is needed for the result.
    BadInput: an unknown view (lists what there is), an unsafe name, a predicate that is more than a predicate, an
    unknown column.
    TryAgain: nothing has been committed yet. What is read later than the tables keep old files (7 days) is
    TryAgain READING_EXPIRED. A cut older than one that this process has read is never returned, and none older than one
    that this reader had of another version (TryAgain ROUTE_BEHIND). Whoever names a ``version`` is kept as its reader:
    it isn't retired unasked.
    """
    config = settings or load_settings()
    name = reader_name(config, reader)
    try:
        found = look_at(config, view, version, where, prefer, partitions, name, columns)
        found.led = name if version is None else ""
    except AnabranchError as error:
        ours = isinstance(error, (BrokenState, TryAgain)) or error.code == "VIEW_UNKNOWN"
        if ours and version is None and (led := led_to(config, view, name)):
            failed_reads.keep(config, view, led, name, error)
        raise
    if version is not None:
        named_readers.keep(config, view, version, name)
    return found


def look_at(
    settings: Settings,
    view: str,
    version: int | None = None,
    where: str | None = None,
    prefer: str = "default",
    partitions: Collection[date] | None = None,
    reader: str | None = None,
    columns: Sequence[str] | None = None,
) -> Reading:
    """As ``read``, for the platform itself: nobody depends on the version that it names."""
    pinned = pin(settings, view, version, checked_prefer(prefer), partitions, reader)
    known = [name for name in pinned.speed.schema.names if is_own(name)]
    predicate = parse_predicate(where, known) if where is not None else None
    return Reading(settings, view, pinned, predicate, known if columns is None else _chosen(columns, known))


def _chosen(columns: Sequence[str], known: Sequence[str]) -> list[str]:
    wrong = [name for name in columns if name not in known]
    if wrong or not columns or len(set(columns)) < len(columns):
        raise BadInput(
            "COLUMN_UNKNOWN",
            f"there is no column {', '.join(wrong)}" if wrong else "columns are one or more, each once",
            next_step=f"there are: {', '.join(known)}",
            field="columns",
        )
    return list(columns)


class Reading:
    """One view at one cut. Timestamps are UTC, platform columns are hidden, rows come in no promised order.

    Nothing is read before a ``to_...`` is called, and each call reads again. Where the platform reads (``to_arrow``,
    ``to_arrow_batches``, ``to_polars``, ``to_pandas``), a file that was cleaned up since is TryAgain READING_EXPIRED, a
    torn one BrokenState FILE_UNREADABLE, and both are counted as failed reads of the view's version. What is lazy
    (``to_polars(lazy=True)``, ``to_duckdb``, ``to_spark``) is read by the engine when it is collected, and raises the
    engine's own error then.
    """

    def __init__(
        self, settings: Settings, view: str, pinned: Pinned, where: Predicate | None, columns: Sequence[str]
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
        landed = [newest(landing_table(self._settings, topic)) for topic in self.cut.positions]
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
        if PARTITION not in self._pinned.speed.schema.names:  # kappa: its stream has the late events, too
            return 0
        view, batch = written_view(self._settings, self.view, self.version), self._pinned.batch
        if view is None:
            return None
        return missing_beside(self._settings, view, self.cut, batch.newest if batch is not None else None).late

    def to_arrow(self) -> pa.Table:
        return self.to_arrow_batches().read_all()

    def to_arrow_batches(self) -> pa.RecordBatchReader:
        """The rows batch by batch, read as they are drawn: only once, by one thread at a time."""
        return pa.RecordBatchReader.from_batches(self.schema, self._checked(self._scan().batches()))

    @overload
    def to_polars(self, *, lazy: Literal[False] = False) -> pl.DataFrame: ...

    @overload
    def to_polars(self, *, lazy: Literal[True]) -> pl.LazyFrame: ...

    def to_polars(self, *, lazy: bool = False) -> pl.DataFrame | pl.LazyFrame:
        """``lazy``: nothing is read yet, and what is asked of the frame (rows, columns) is pushed down to the files."""
        import polars as pl

        if lazy:
            return self._scan().lazy()
        frame = pl.from_arrow(self.to_arrow())
        assert isinstance(frame, pl.DataFrame)  # noqa: S101 - a table never becomes a Series
        return frame

    def to_pandas(self) -> pd.DataFrame:
        """With Arrow's own types, so that whole numbers with gaps stay whole numbers."""
        import pandas as pd

        frame: pd.DataFrame = self.to_arrow().to_pandas(types_mapper=pd.ArrowDtype)
        return frame

    def to_duckdb(self) -> duckdb.DuckDBPyRelation:
        """A relation of a connection of its own, in UTC, that reads the files when it is executed, and what it is
        filtered by is pushed down to them. SQL over it can't reach any other file, nor the network."""
        return self._scan().relation()

    def to_spark(self, spark: SparkSession) -> DataFrame:
        """Read by Spark itself, from the same versions of the same tables; nothing goes through the driver."""
        from pyspark.sql import functions as F

        frames = [self._spark_half(spark, half) for half in (SPEED, BATCH) if half in self.halves.values()]
        if not frames:
            frames = [self._spark_half(spark, SPEED)]
        rows = frames[0] if len(frames) == 1 else frames[0].unionByName(frames[1])
        rows = rows.where(F.expr(self._where.spark)) if self._where else rows
        return rows.select(*map(_spark_name, self.schema.names))

    def _spark_half(self, spark: SparkSession, half: HalfName) -> DataFrame:
        from pyspark.sql import functions as F

        source = self._pinned.batch if half == BATCH and self._pinned.batch else self._pinned.speed
        rows = spark.read.format("delta").option("versionAsOf", source.version).load(source.uri)
        if PARTITION in rows.columns:
            days = [day for day, name in self.halves.items() if name == half]
            chosen = F.col(PARTITION).isin([day for day in days if day is not None])
            rows = rows.where(chosen | F.col(PARTITION).isNull() if None in days else chosen)
        return rows.select(*(_spark_name(name) for name in self._pinned.speed.schema.names if is_own(name)))

    def _scan(self) -> Scan:
        known = pa.schema([f for f in self._pinned.speed.schema if is_own(f.name)])
        files = self._pinned.files()
        if self._where is not None:
            logs = [half.log for half in (self._pinned.speed, self._pinned.batch) if half is not None]
            files = may_match(self._where.tree, known, files, logs)
        return Scan(files, known, self.schema.names, self._where)

    def _checked(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import duckdb

        try:
            yield from batches
        except (OSError, pa.ArrowInvalid, duckdb.Error) as error:
            failure = self._failure(error)
            if self.led and not isinstance(failure, BadInput):
                failed_reads.keep(self._settings, self.view, self.version, self.led, failure)
            raise failure from error

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
