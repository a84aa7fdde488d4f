"""Check that Spark's watermark dropped no rows, before anything of a micro-batch is committed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.core.errors import BrokenState
from anabranch.views import View

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_METRIC = "numRowsDroppedByWatermark"


def dropped_rows(spark: SparkSession, query_id: str) -> int:
    """The rows that the current micro-batch of query ``query_id`` has dropped so far; 0 before its plan exists."""
    query = spark.streams.get(query_id)
    execution = query._jsq.streamingQuery().lastExecution() if query else None
    return _sum(execution.executedPlan()) if execution else 0


def _sum(plan: Any) -> int:
    metric = plan.metrics().get(_METRIC)
    own = int(metric.get().value()) if metric.isDefined() else 0
    children = plan.children()
    return own + sum(_sum(children.apply(i)) for i in range(children.size()))


def check(view: View, batch: int, count: int) -> None:
    """Raises BrokenState ROWS_DROPPED unless ``count`` is 0: landing decides what is late, Spark must not."""
    if count:
        raise BrokenState(
            "ROWS_DROPPED",
            f"{view.name} v{view.version}: Spark's watermark dropped {count} on-time rows in batch {batch}",
            state="nothing of this batch was committed; the speed table ends at the batch before",
            next_step="if the topic's allowed_lateness was shortened since these rows landed, restore it; a view of "
            "events from before 1970 needs refresh='partitions'",
            view=view.name,
            batch=batch,
            count=count,
        )
