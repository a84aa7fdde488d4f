"""What Spark's checkpoint of a landing query says, and whether landing continues from it, or from its table alone.

The table records the landed offsets, as the checkpoint does. So a checkpoint that disagrees (restored from an older
copy, of another topic, torn, or ahead of a table that was restored or moved away) costs nothing: it is moved aside, and
landing continues after what is in the table. With that checkpoint it would read offsets that the log no longer holds,
or skip some. Before anything has landed a query continues exactly if it begins where the log does: retention may have
passed the begin of a micro-batch that never landed.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.core.errors import BrokenState
from anabranch.lake.streams.stream_checkpoint import (
    BatchPlan,
    batch_plan,
    check_readable,
    clear_unstarted,
    newest_batch,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LOGGER = logging.getLogger(__name__)


def can_resume(checkpoint: Path, topic: str, landed: Mapping[int, int], log_begin: Mapping[int, int]) -> bool:
    """Whether a query with ``checkpoint`` continues exactly after ``landed``; if that is empty, from ``log_begin``. If
    not, the checkpoint is moved to ``<checkpoint>.aside``, and the caller starts a new query. Called before each start,
    when no query uses it."""
    try:
        clear_unstarted(checkpoint)
        planned = check_readable(checkpoint)
        if planned is None:
            unlike = _unbegun(checkpoint, topic, landed or log_begin)
        else:
            unlike = (
                _unlike(checkpoint, topic, planned, landed) if landed else _unlike_new(checkpoint, topic, log_begin)
            )
    except (BrokenState, OSError, ValueError, KeyError) as error:
        planned, unlike = None, getattr(error, "what", str(error))
    if unlike:
        aside = checkpoint.with_name(f"{checkpoint.name}.aside")
        shutil.rmtree(aside, ignore_errors=True)
        checkpoint.rename(aside)
        LOGGER.warning("%s: landing continues from its table; its checkpoint was moved to %s: %s", topic, aside, unlike)
        return False
    return planned is not None


def _unbegun(checkpoint: Path, topic: str, landed: Mapping[int, int]) -> str:
    """Why a query with a checkpoint that has no plans would not start after ``landed``; empty if it would."""
    if newest_batch(checkpoint, "commits") is not None:
        return "its plans are gone"
    if (checkpoint / "sources" / "0" / "0").exists() and not _same(begin := first_offsets(checkpoint, topic), landed):
        return f"it begins at {begin}; the table is landed to {dict(landed)}"
    return ""


def _unlike_new(checkpoint: Path, topic: str, log_begin: Mapping[int, int]) -> str:
    """The same for a checkpoint with plans of which nothing has landed."""
    if newest_batch(checkpoint, "offsets") != 0 or newest_batch(checkpoint, "commits") is not None:
        return "it has landed something; the table has nothing"
    if not _same(begin := first_offsets(checkpoint, topic), log_begin):
        return f"it begins at {begin}; nothing has landed, and the log begins at {dict(log_begin)}"
    return ""


def _unlike(checkpoint: Path, topic: str, planned: int, landed: Mapping[int, int]) -> str:
    """Why continuing with batch ``planned`` (after it, if it is done) isn't continuing after ``landed``; empty if it
    is."""
    plan = batch_plan(checkpoint, planned)
    topics = sorted({name for offsets in plan.offsets for name in offsets})
    if topics != [topic]:
        return f"it counts offsets of {', '.join(topics) or 'nothing'}"
    end = kafka_offsets(plan, topic)
    positions = {"its newest micro-batch ends": end}
    if newest_batch(checkpoint, "commits") != planned:  # it runs again, whether or not it is in the table
        before = kafka_offsets(batch_plan(checkpoint, planned - 1), topic) if planned else None
        positions["begins"] = first_offsets(checkpoint, topic) if before is None else before
    if any(_same(offsets, landed) for offsets in positions.values()):
        return ""
    where = ", ".join(f"{what} at {offsets}" for what, offsets in positions.items())
    return f"{where}; the table is landed to {dict(landed)}"


def _same(offsets: Mapping[int, int], landed: Mapping[int, int]) -> bool:
    """Offset 0 counts as no offset: the log has a new partition, or nothing was landed from this one."""
    return {p: o for p, o in offsets.items() if o} == {p: o for p, o in landed.items() if o}


def kafka_offsets(plan: BatchPlan, topic: str) -> dict[int, int]:
    """The next offset per partition after this micro-batch."""
    content: Mapping[str, int] = plan.offsets[0][topic]
    return {int(partition): int(offset) for partition, offset in content.items()}


def first_offsets(checkpoint: Path, topic: str) -> dict[int, int]:
    """The begin offsets of this checkpoint's first micro-batch, which the Kafka source records when it starts."""
    text = (checkpoint / "sources" / "0" / "0").read_text()
    content: Mapping[str, int] = json.loads(text[text.index("{") :])[topic]
    return {int(partition): int(offset) for partition, offset in content.items()}


def not_yet_landed(rows: DataFrame, offsets: Mapping[int, int]) -> DataFrame:
    """Only the records that are not landed yet; ``offsets``: the next offset to land, by partition."""
    from pyspark.sql import functions as F

    new = ~F.col("partition").isin(*offsets)
    for partition, landed_to in offsets.items():
        new = new | ((F.col("partition") == partition) & (F.col("offset") >= landed_to))
    return rows.where(new)
