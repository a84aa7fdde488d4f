"""Which offsets of the log a micro-batch of landing holds, from its checkpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.lake.stream_checkpoint import BatchPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def kafka_offsets(plan: BatchPlan, topic: str) -> dict[int, int]:
    """The next offset per partition after this micro-batch."""
    content: Mapping[str, int] = plan.offsets[0][topic]
    return {int(partition): int(offset) for partition, offset in content.items()}


def first_offsets(checkpoint: Path, topic: str) -> dict[int, int]:
    """Where the very first micro-batch of this checkpoint began: the Kafka source writes it down at its start."""
    text = (checkpoint / "sources" / "0" / "0").read_text()
    content: Mapping[str, int] = json.loads(text[text.index("{") :])[topic]
    return {int(partition): int(offset) for partition, offset in content.items()}


def not_yet_landed(rows: DataFrame, offsets: Mapping[int, int]) -> DataFrame:
    """Only the records that were not landed yet; ``offsets`` is where landing stands."""
    from pyspark.sql import functions as F

    new = ~F.col("partition").isin(*offsets)
    for partition, landed_to in offsets.items():
        new = new | ((F.col("partition") == partition) & (F.col("offset") >= landed_to))
    return rows.where(new)
