"""Reads Spark's checkpoint of a stream: its id, and the offsets that it planned for each micro-batch.

Spark writes ``offsets/<batch>`` before it calls the sink; a failed batch runs again with the same offsets.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from anabranch.core.control_file import ControlFile
from anabranch.core.errors import BrokenState
from anabranch.core.storage import DISK


@dataclass(frozen=True, slots=True)
class CheckpointFormat:
    """What a checkpoint says of itself, besides its format: nothing yet."""


CHECKPOINT: Final = ControlFile("checkpoint of a stream", CheckpointFormat)
"""The format of a checkpoint: what our streams keep in Spark's state, and how they continue from it. One without the
file is of format 1."""
_MARKER: Final = "anabranch.json"


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """The plan of one micro-batch: one numbered file of ``checkpoint/offsets``."""

    batch_id: int
    watermark_ms: int
    """The watermark (event time) of the batch; 0 if there is none yet."""
    offsets: tuple[Any, ...] = field(hash=False)
    """The end offset of each source, as that source wrote it; sources with nothing new are left out."""


def batch_plan(checkpoint: Path, batch_id: int) -> BatchPlan:
    """The plan of one micro-batch. Raises BrokenState CHECKPOINT_UNREADABLE or CHECKPOINT_VERSION."""
    path = checkpoint / "offsets" / str(batch_id)
    try:
        header, metadata, *sources = path.read_text().splitlines()
        offsets = tuple(json.loads(source) for source in sources if source != "-")
        plan = BatchPlan(batch_id, int(json.loads(metadata)["batchWatermarkMs"]), offsets)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _unreadable(checkpoint, path, error) from error
    if header != "v1":
        raise BrokenState(
            "CHECKPOINT_VERSION",
            f"{path} has version {header}, but only v1 can be read",
            next_step="another version of Spark wrote it: continue with that version, or delete it and build again",
        )
    return plan


def checkpoint_id(checkpoint: Path) -> str:
    """The id that Spark gave this checkpoint at its first start; unique to it. Raises BrokenState."""
    path = checkpoint / "metadata"
    try:
        return str(json.loads(path.read_text())["id"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _unreadable(checkpoint, path, error) from error


def started(checkpoint: Path) -> bool:
    """Whether any micro-batch was ever planned from this checkpoint. Raises as ``newest_batch``."""
    return newest_batch(checkpoint, "offsets") is not None


def newest_batch(checkpoint: Path, log: str) -> int | None:
    """The newest numbered file of ``offsets`` (planned) or ``commits`` (done); None if there is none.
    Raises BrokenState CHECKPOINT_UNREADABLE: a folder that can't be listed isn't empty (a glob passes over it)."""
    folder = checkpoint / log
    try:
        return max((int(name) for name in DISK.names(folder) if name.isdecimal()), default=None)
    except OSError as error:
        raise _unreadable(checkpoint, folder, error) from error


def position_in(checkpoint: Path, table_id: str) -> int | None:
    """The version of a Delta table from which a stream with this checkpoint continues, or repeats a batch after a kill;
    None if it has planned nothing of that table. Raises BrokenState CHECKPOINT_UNREADABLE."""
    planned = newest_batch(checkpoint, "offsets")
    plans = () if planned is None else (batch_plan(checkpoint, n) for n in range(max(planned - 1, 0), planned + 1))
    ends = [int(end["reservoirVersion"]) for plan in plans for end in plan.offsets if end["reservoirId"] == table_id]
    # A stream's first batch is a snapshot of the version before the one in its end offset.
    return min(ends) - 1 if ends else None


def check_format(checkpoint: Path) -> None:
    """Raises BrokenState FORMAT_NEWER: a newer version has made this checkpoint. CHECKPOINT_UNREADABLE."""
    path = checkpoint / _MARKER
    try:
        if has_format(checkpoint):
            CHECKPOINT.read(path)
    except (OSError, ValueError) as error:
        raise _unreadable(checkpoint, path, error) from error


def refuse_newer(checkpoint: Path) -> None:
    """Raises FORMAT_NEWER only. For landing, which starts from its table if its checkpoint can't be read."""
    try:
        check_format(checkpoint)
    except BrokenState as error:
        if error.code == "FORMAT_NEWER":
            raise


def has_format(checkpoint: Path) -> bool:
    """Whether the checkpoint names its format. A power cut may have left the file empty: then it is written again."""
    path = checkpoint / _MARKER
    return path.exists() and path.stat().st_size > 0


def name_format(checkpoint: Path) -> None:
    """Let the checkpoint name its format. Call it before a stream starts from it, after ``check_format``."""
    if not has_format(checkpoint):
        CHECKPOINT.write(checkpoint / _MARKER, CheckpointFormat())


def check_readable(checkpoint: Path) -> int | None:
    """Checks that all files which Spark reads to continue can be read, except the state; returns the newest planned
    batch.

    Raises BrokenState CHECKPOINT_UNREADABLE, which names the file. Usually it is a file that a power cut left empty.
    Raises FORMAT_NEWER as ``check_format``.
    """
    check_format(checkpoint)
    if (checkpoint / "metadata").exists():
        checkpoint_id(checkpoint)
    planned, done = newest_batch(checkpoint, "offsets"), newest_batch(checkpoint, "commits")
    for batch in () if planned is None else range(max(planned - 1, 0), planned + 1):
        batch_plan(checkpoint, batch)
    if done is not None:
        path = checkpoint / "commits" / str(done)
        try:
            json.loads(path.read_text().splitlines()[1])
        except (OSError, ValueError, IndexError) as error:
            raise _unreadable(checkpoint, path, error) from error
    return planned


def delete(checkpoint: Path) -> None:
    """Delete a checkpoint, and the target if it is a symbolic link. Does nothing if there is none."""
    if checkpoint.is_symlink():
        target = checkpoint.resolve()
        checkpoint.unlink()
        shutil.rmtree(target, ignore_errors=True)
    else:
        shutil.rmtree(checkpoint, ignore_errors=True)


def clear_unstarted(checkpoint: Path) -> None:
    """Delete what a start left that was killed before it renamed its first plan (SPARK-53103).

    Spark takes its own temporary file for a foreign checkpoint and never starts again; the checkpoint is still empty.
    """
    if not started(checkpoint):
        for leftover in (checkpoint / "offsets").glob("*"):  # includes names that begin with a dot
            leftover.unlink(missing_ok=True)


def _unreadable(checkpoint: Path, path: Path, error: Exception) -> BrokenState:
    return BrokenState(
        "CHECKPOINT_UNREADABLE",
        f"{path} can't be read: {error}",
        state="nothing of this micro-batch was written",
        next_step=f"move {checkpoint} away and start again: the tables record what was already written",
    )
