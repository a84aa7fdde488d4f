"""The sides that are compared: what the speed table holds, what the function of the same events says, a build.

A side is a DataFrame with the view's own columns, in name order, and ``partition_date`` (null for a kappa view).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

from deltalake import DeltaTable

from anabranch.contracts import Sources
from anabranch.core.errors import Conflict, TryAgain
from anabranch.core.settings import Settings
from anabranch.lake import Cut, latest_verified_commit
from anabranch.lake.commits import open_table
from anabranch.lake.frames import table_rows
from anabranch.lake.layout import speed_table
from anabranch.views.definition import PARTITION_DATE, View, is_changed
from anabranch.views.inputs import frames, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_START = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class SpeedState:
    """The speed table at its newest commit: everything of one reconciliation is compared at this version.

    ``watermark``: of a view that sees only what is closed, how far the commit's micro-batch saw.
    """

    uri: str
    version: int
    cut: Cut
    watermark: datetime | None = None


def speed_state(settings: Settings, view: View) -> SpeedState:
    """TryAgain VIEW_NOT_READY before the stream's first commit; Conflict DEFINITION_CHANGED for another function."""
    return state_at(view, speed_table(settings, view.name, view.version))


def state_at(view: View, uri: str) -> SpeedState:
    """The same for a table that a replay of the stream has made."""
    table = open_table(uri)
    committed = latest_verified_commit(table) if table is not None else None
    if committed is None or not any(p.epoch for p in committed.note.cut.positions.values()):
        raise TryAgain(
            "VIEW_NOT_READY",
            f"{view.name} v{view.version} has no committed micro-batch to compare with",
            state="nothing was compared",
            next_step="wait for its stream; anabranch status shows it",
        )
    if committed.note.fingerprint != view.fingerprint:
        raise Conflict(
            "DEFINITION_CHANGED",
            f"{view.origin}: {view.name} v{view.version} is not the function that its speed table was made by",
            state="nothing was compared",
            next_step=f"put the old definition back, or declare it as version {view.version + 1}",
            table=committed.note.fingerprint,
            definition=view.fingerprint,
        )
    seen = timedelta(milliseconds=committed.note.extra.get("watermark_ms") or 0)
    return SpeedState(uri, committed.version, committed.note.cut, _START + seen if view.closed_only else None)


def speed_rows(spark: SparkSession, view: View, state: SpeedState, partitions: Sequence[date] | None) -> DataFrame:
    """The rows of ``partitions`` (None: all) in the speed table, as of ``state``."""
    days = None if partitions is None or view.kappa else frozenset(partitions)
    table = DeltaTable(state.uri, version=state.version)
    rows = table_rows(spark, table, None if days is None else days.__contains__)
    rows = rows.drop(*filter(is_changed, rows.columns))
    return _side(rows, view)


def function_rows(view: View, topics: Sources, events: DataFrame) -> DataFrame:
    """What the view's function says of ``events``. Rows of other partitions than those asked for are in it too:
    a filter here would be pushed through the author's function."""
    return _side(rows_of(view, frames(events, view, topics)), view)


def build_rows(spark: SparkSession, view: View, like: DataFrame, files: Sequence[str], base: str) -> DataFrame:
    """The rows of a staged build's Parquet ``files``, which lie in folders by partition below ``base``."""
    if not files:
        return like.limit(0)
    rows = spark.read.schema(like.schema).option("basePath", base).parquet(*files)
    return _side(rows, view)


def _side(rows: DataFrame, view: View) -> DataFrame:
    from pyspark.sql import functions as F

    if view.kappa:
        rows = rows.withColumn(PARTITION_DATE, F.lit(None).cast("date"))
    return rows.select(*sorted(c for c in rows.columns if c != PARTITION_DATE), PARTITION_DATE)
