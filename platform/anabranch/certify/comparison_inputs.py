"""The sides of a comparison, as DataFrames: rows of the speed table, results of the view's function, rows of a build.

A side has the view's own columns, in name order, and ``partition_date`` (null for a kappa view).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

from anabranch.contracts.model.topics import Sources
from anabranch.core.errors import Conflict, TryAgain
from anabranch.lake import latest_verified_commit, open_table
from anabranch.lake.cut import Cut
from anabranch.lake.frames import table_rows
from anabranch.lake.log.delta_tables import delta_table
from anabranch.views import View
from anabranch.views.model.definition import PARTITION_DATE, is_changed
from anabranch.views.model.handle import ViewHandle
from anabranch.views.selection.inputs import frames, loaded_in, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_START = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class SpeedState:
    """The speed table at one commit. One reconciliation compares everything at this version.

    ``watermark``: the watermark of the commit's micro-batch; only for views that emit closed rows only. ``loaded``: the
    epochs by topic up to which a kappa view's replay has read events from files.
    """

    uri: str
    version: int
    cut: Cut
    watermark: datetime | None = None
    loaded: Mapping[str, int] = field(default_factory=dict, hash=False)


def speed_state(view: ViewHandle) -> SpeedState:
    """Return the state of the view's live speed table at its newest commit.

    Raises TryAgain VIEW_NOT_READY before the stream's first commit; Conflict DEFINITION_CHANGED when the table was made
    by another definition.
    """
    return state_at(view.definition, view.speed_table)


def state_at(view: View, uri: str) -> SpeedState:
    """As ``speed_state``, for the table at ``uri``, for example one that a replay wrote."""
    table = open_table(uri)
    commit = latest_verified_commit(table) if table is not None else None
    if commit is None or not any(p.epoch for p in commit.note.cut.positions.values()):
        raise TryAgain(
            "VIEW_NOT_READY",
            f"{view.name} v{view.version} has no committed micro-batch to compare with",
            state="nothing was compared",
            next_step="wait for its stream; anabranch status shows it",
        )
    if commit.note.fingerprint != view.fingerprint:
        raise Conflict(
            "DEFINITION_CHANGED",
            f"{view.origin}: {view.name} v{view.version} is not the definition that its speed table was made by",
            state="nothing was compared",
            next_step=f"restore the old definition, or declare the new one as version {view.version + 1}",
            table=commit.note.fingerprint,
            definition=view.fingerprint,
        )
    watermark = _START + timedelta(milliseconds=commit.note.extra.get("watermark_ms") or 0)
    closed = watermark if view.closed_only else None
    return SpeedState(uri, commit.version, commit.note.cut, closed, loaded_in(commit.note))


def speed_rows(spark: SparkSession, view: View, state: SpeedState, partitions: Sequence[date] | None) -> DataFrame:
    """Return the rows of ``partitions`` (None: all) in the speed table at ``state``."""
    days = None if partitions is None or view.kappa else frozenset(partitions)
    table = delta_table(state.uri, state.version)
    rows = table_rows(spark, table, None if days is None else days.__contains__)
    rows = rows.drop(*filter(is_changed, rows.columns))
    return _side(rows, view)


def function_rows(view: View, topics: Sources, events: DataFrame) -> DataFrame:
    """Return the result of the view's function over ``events``. It may contain rows of other partitions: it is not
    filtered here because Spark would push the filter through the author's function."""
    return _side(rows_of(view, frames(events, view, topics)), view)


def build_rows(spark: SparkSession, view: View, like: DataFrame, files: Sequence[str], base: str) -> DataFrame:
    """Return the rows of a staged build's Parquet ``files``, which are in Hive partition folders below ``base``."""
    if not files:
        return like.limit(0)
    rows = spark.read.schema(like.schema).option("basePath", base).parquet(*files)
    return _side(rows, view)


def comparable_rows(rows: DataFrame) -> DataFrame:
    """Return the rows with sorted pairs in place of each map: Spark compares and groups no maps."""
    from pyspark.sql import functions as F

    from anabranch.ingest.landing.table.schema_projection import comparable

    return rows.select(
        *(comparable(F.col(f"`{field.name}`"), field.dataType).alias(field.name) for field in rows.schema)
    )


def _side(rows: DataFrame, view: View) -> DataFrame:
    from pyspark.sql import functions as F

    if view.kappa:
        rows = rows.withColumn(PARTITION_DATE, F.lit(None).cast("date"))
    return rows.select(*sorted(c for c in rows.columns if c != PARTITION_DATE), PARTITION_DATE)
