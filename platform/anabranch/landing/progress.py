"""What a stream's checkpoint says of its micro-batches: the offsets that one ends at, and its watermark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anabranch.errors import BrokenState


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """One numbered file of ``checkpoint/offsets``: written before the micro-batch's function is called."""

    batch_id: int
    watermark_ms: int
    offsets: tuple[Any, ...] = field(hash=False)
    """One per source, as the source wrote it."""


def batch_plan(checkpoint: Path, batch_id: int) -> BatchPlan:
    """The plan of one micro-batch. BrokenState when Spark's checkpoint doesn't hold it."""
    path = checkpoint / "offsets" / str(batch_id)
    try:
        header, metadata, *offsets = path.read_text().splitlines()
        plan = BatchPlan(batch_id, int(json.loads(metadata)["batchWatermarkMs"]), tuple(map(json.loads, offsets)))
    except (OSError, ValueError, KeyError) as error:
        raise BrokenState(
            "CHECKPOINT_UNREADABLE",
            f"{path} can't be read: {error}",
            state="nothing of this micro-batch was written",
            next_step=f"move {checkpoint} away and start again: what was landed is known from the tables",
        ) from error
    if header != "v1":
        raise BrokenState("CHECKPOINT_VERSION", f"{path} is of version {header}, not v1")
    return plan


def checkpoint_id(checkpoint: Path) -> str:
    """The id that Spark gave this checkpoint at its first start; another checkpoint has another one."""
    return str(json.loads((checkpoint / "metadata").read_text())["id"])


def started(checkpoint: Path) -> bool:
    """Whether any micro-batch was ever planned from this checkpoint."""
    return any(f.name.isdecimal() for f in (checkpoint / "offsets").glob("*"))


def clear_unstarted(checkpoint: Path) -> None:
    """Delete the leftovers of a start that was killed before its first plan was named (SPARK-53103).

    Spark never starts from such a checkpoint again, and there is nothing in it yet.
    """
    if checkpoint.exists() and not started(checkpoint):
        for leftover in [*(checkpoint / "offsets").glob("*"), *(checkpoint / "offsets").glob(".*")]:
            leftover.unlink(missing_ok=True)


def kafka_offsets(plan: BatchPlan, topic: str) -> dict[int, int]:
    """The next offset per partition after this micro-batch."""
    content: Mapping[str, int] = plan.offsets[0][topic]
    return {int(partition): int(offset) for partition, offset in content.items()}


def first_offsets(checkpoint: Path, topic: str) -> dict[int, int]:
    """Where the very first micro-batch of this checkpoint began: the Kafka source writes it down at its start."""
    text = (checkpoint / "sources" / "0" / "0").read_text()
    content: Mapping[str, int] = json.loads(text[text.index("{") :])[topic]
    return {int(partition): int(offset) for partition, offset in content.items()}
