"""Read from a checkpoint which landing commits a micro-batch of a view contains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anabranch.core.errors import BrokenState
from anabranch.lake.streams.stream_checkpoint import batch_plan

_BOUNDARY = -1
"""The index in a Delta source's offset that means "before the first file of ``reservoirVersion``"."""


@dataclass(frozen=True, slots=True)
class BatchEnd:
    """The end of a micro-batch: it contains the commits of each landing table below ``versions`` that the previous
    micro-batch didn't contain.

    ``versions`` is keyed by the table's id; a table that was always empty is left out. ``watermark_ms`` is the
    watermark (ms since 1970) that the batch ran with; None if there is none yet.
    """

    versions: Mapping[str, int] = field(hash=False)
    watermark_ms: int | None


def batch_end(checkpoint: Path, batch: int) -> BatchEnd:
    """The end of micro-batch ``batch``. Raises BrokenState EPOCH_SPLIT when it lies inside a landing commit."""
    plan = batch_plan(checkpoint, batch)
    versions = {end["reservoirId"]: int(end["reservoirVersion"]) for end in plan.offsets}
    # A table that a plan reads several times is several sources: they must all end at the same version.
    differing = [end for end in plan.offsets if int(end["reservoirVersion"]) != versions[end["reservoirId"]]]
    if not plan.offsets or differing or not all(map(_on_boundary, plan.offsets)):
        raise BrokenState(
            "EPOCH_SPLIT",
            f"micro-batch {batch} of {checkpoint} ends inside an epoch of landing: {plan.offsets}",
            state="nothing of this batch was committed; the watermark could drop rows of a split epoch",
            next_step=f"remove any rate limit from the stream, delete {checkpoint} and start again",
            batch=batch,
        )
    return BatchEnd(versions, plan.watermark_ms or None)


def _on_boundary(end: dict[str, Any]) -> bool:
    return end["index"] == _BOUNDARY and not end["isStartingVersion"]
