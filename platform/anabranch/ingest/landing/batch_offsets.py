"""Reads the offset range of a landing micro-batch from Spark's checkpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.lake.streams.stream_checkpoint import BatchPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
