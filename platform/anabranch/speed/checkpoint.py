"""What a stream's checkpoint says of one micro-batch: which landing commits it holds, and its watermark.

Spark writes ``offsets/<batch>`` before it calls the sink, and a failed batch runs again with the same offsets.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anabranch.errors import BrokenState

_BOUNDARY = -1
"""The index in a Delta source's offset that means "before the first file of ``reservoirVersion``"."""


@dataclass(frozen=True, slots=True)
class BatchEnd:
    """A micro-batch holds every landing commit below ``version`` that the batch before it didn't hold.

    ``watermark_ms`` is the event time (ms since 1970) that the batch ran with; None where there is none yet.
    """

    version: int
    watermark_ms: int | None


def mend(checkpoint: Path) -> list[str]:
    """Make a checkpoint startable whose first batch was killed before it had offsets; returns what was deleted.

    Spark takes its own temporary files for a foreign checkpoint there, and would never start (SPARK-53103).
    """
    offsets = checkpoint / "offsets"
    if not offsets.is_dir() or any(entry.name.isdecimal() for entry in offsets.iterdir()):
        return []
    leftovers = sorted(offsets.glob("*.tmp*"))
    for leftover in leftovers:
        leftover.unlink()
    return [leftover.name for leftover in leftovers]


def checkpoint_id(checkpoint: Path) -> str:
    """The identity that Spark gave this checkpoint: a deleted one comes back with another."""
    try:
        return str(json.loads((checkpoint / "metadata").read_text())["id"])
    except (OSError, ValueError, KeyError) as error:
        raise BrokenState("CHECKPOINT_UNREADABLE", f"{checkpoint}/metadata can't be read: {error}") from error


def batch_end(checkpoint: Path, batch: int) -> BatchEnd:
    """Where micro-batch ``batch`` ends. BrokenState EPOCH_SPLIT when that is inside a landing commit."""
    path = checkpoint / "offsets" / str(batch)
    _, head, *sources = path.read_text().splitlines()
    ends = [json.loads(source) for source in sources if source != "-"]
    if not ends or any(end != ends[0] or not _on_boundary(end) for end in ends):
        raise BrokenState(
            "EPOCH_SPLIT",
            f"micro-batch {batch} of {checkpoint} ends inside an epoch of landing: {sources}",
            state="nothing of this batch was committed; rows of a split epoch could be dropped by the watermark",
            next_step=f"remove any rate limit from the stream, delete {checkpoint} and start again",
            batch=batch,
        )
    watermark = int(json.loads(head)["batchWatermarkMs"])
    return BatchEnd(int(ends[0]["reservoirVersion"]), watermark or None)


def _on_boundary(end: dict[str, Any]) -> bool:
    return end["index"] == _BOUNDARY and not end["isStartingVersion"]
