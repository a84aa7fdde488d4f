"""Which landing commits a micro-batch of a view holds, from its checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anabranch.core.errors import BrokenState
from anabranch.lake.stream_checkpoint import batch_plan

_BOUNDARY = -1
"""The index in a Delta source's offset that means "before the first file of ``reservoirVersion``"."""


@dataclass(frozen=True, slots=True)
class BatchEnd:
    """A micro-batch holds every commit of each landing table below its version that the batch before it didn't hold.

    ``versions`` is by the table's id; a table that never had anything is left out. ``watermark_ms`` is the event time
    (ms since 1970) that the batch ran with; None where there is none yet.
    """

    versions: Mapping[str, int] = field(hash=False)
    watermark_ms: int | None


def batch_end(checkpoint: Path, batch: int) -> BatchEnd:
    """Where micro-batch ``batch`` ends. BrokenState EPOCH_SPLIT when that is inside a landing commit."""
    plan = batch_plan(checkpoint, batch)
    versions = {end["reservoirId"]: int(end["reservoirVersion"]) for end in plan.offsets}
    # A table that is read in several places of a plan is a source each time: they must end alike.
    unlike = [end for end in plan.offsets if int(end["reservoirVersion"]) != versions[end["reservoirId"]]]
    if not plan.offsets or unlike or not all(map(_on_boundary, plan.offsets)):
        raise BrokenState(
            "EPOCH_SPLIT",
            f"micro-batch {batch} of {checkpoint} ends inside an epoch of landing: {plan.offsets}",
            state="nothing of this batch was committed; rows of a split epoch could be dropped by the watermark",
            next_step=f"remove any rate limit from the stream, delete {checkpoint} and start again",
            batch=batch,
        )
    return BatchEnd(versions, plan.watermark_ms or None)


def _on_boundary(end: dict[str, Any]) -> bool:
    return end["index"] == _BOUNDARY and not end["isStartingVersion"]
