"""Fences off old writers: of several processes that would write one table, the one that started last may write.

A commit makes exactly the version after the one that its writer has read, or fails: two writers never corrupt a table.
But both would go on for ever, each making the other one's commits fail. So each process writes its token into a small
file when it starts, and checks before each commit that the token is still there. If the old process still commits
after its check, the successor either sees that commit when it reads the table, or was faster and so makes it fail.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from uuid import uuid4

from anabranch.core.control_file import ControlFile
from anabranch.core.errors import BrokenState, Conflict


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that may write: its ``token``, and where it runs since when."""

    token: str
    pid: int
    host: str
    at: str


FENCE: Final = ControlFile("writer's fence", Holder)


@dataclass(frozen=True, slots=True)
class WriterFence:
    """The right of this process to write as ``writer``. Not guaranteed: that it is kept for any time."""

    path: Path
    writer: str
    token: str

    def check(self) -> None:
        """Raises Conflict FENCED if another process has taken over."""
        if (lost := self.lost()) is not None:
            raise lost

    def lost(self) -> Conflict | None:
        """FENCED if another process has taken over, else None. Also used when Spark first detects two queries on one
        checkpoint. Raises OSError.

        A fence that is torn stops nobody, and needs none to be safe: only a power cut tears it, which no writer
        survives, and the next one writes it anew. Should two writers live all the same, each commits right after what
        it has read, or not at all: they make each other's commits fail, and lose and double nothing.
        """
        try:
            holder = FENCE.read(self.path)
        except ValueError:
            return None
        if holder is None or holder.token == self.token:
            return None
        return Conflict(
            "FENCED",
            f"{self.writer}: process {holder.pid} on {holder.host} has taken over at {holder.at}",
            state="this process writes nothing more; what it has committed is kept",
            next_step="nothing, if the other process should run; otherwise stop that one, and start this one again",
            writer=self.writer,
            holder=holder.pid,
        )


def acquire(folder: Path, writer: str) -> WriterFence:
    """Take over as ``writer`` (like ``landing/flights``) from any process that has written so far; its next check
    fails. Raises BrokenState DISK_UNWRITABLE."""
    fence = WriterFence(folder / f"{writer.replace('/', '-')}.json", writer, uuid4().hex)
    at = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        FENCE.write(fence.path, Holder(fence.token, os.getpid(), socket.gethostname(), at))
    except OSError as error:
        raise BrokenState(
            "DISK_UNWRITABLE",
            f"{fence.path} can't be written: {error}",
            state=f"{writer} was not started",
            next_step="check that its disk has free space and is writable; then start it again",
            path=str(fence.path),
        ) from error
    return fence
