"""Whose turn it is to write: of several processes that would write one table, the one that started last.

The commit of a table lands behind the version that its writer has read, or not at all: two writers never spoil it.
But both would go on for ever, each knocking the other over. So each takes the turn when it starts, in a small file,
and looks before each commit whether it still has it. What comes in between that look and its commit is what the
successor finds when it reads the table, or makes that commit fail.
"""

from __future__ import annotations

import json
import os
import socket
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from anabranch.core.atomic_files import write_atomically
from anabranch.core.errors import BrokenState, Conflict


@dataclass(frozen=True, slots=True)
class WriterFence:
    """The turn to write as ``writer``, taken by this process. Not promised: that it is held for any time."""

    path: Path
    writer: str
    token: str

    def check(self) -> None:
        """Conflict FENCED when another one has taken the turn since."""
        if (lost := self.lost()) is not None:
            raise lost

    def lost(self) -> Conflict | None:
        """FENCED, where it is that: also the reason when the engine finds two queries over one checkpoint first."""
        try:
            holder = json.loads(self.path.read_text())
        except (FileNotFoundError, ValueError):  # tidied away, or torn: then nobody else has it
            return None
        if holder["token"] == self.token:
            return None
        return Conflict(
            "FENCED",
            f"{self.writer}: process {holder['pid']} on {holder['host']} has taken over at {holder['at']}",
            state="nothing more is written by this process; what it had written is kept",
            next_step="nothing, if the other one should run; else end that one, and start this one again",
            writer=self.writer,
            holder=holder["pid"],
        )


def acquire(folder: Path, writer: str) -> WriterFence:
    """Take the turn to write as ``writer`` (like ``landing/flights``), whoever had it; from now on its writes end.
    BrokenState DISK_UNWRITABLE."""
    turn = WriterFence(folder / f"{writer.replace('/', '-')}.json", writer, uuid4().hex)
    at = datetime.now(UTC).isoformat(timespec="seconds")
    content = {"token": turn.token, "pid": os.getpid(), "host": socket.gethostname(), "at": at}
    try:
        write_atomically(turn.path, json.dumps(content))
    except OSError as error:
        raise BrokenState(
            "DISK_UNWRITABLE",
            f"{turn.path} can't be written: {error}",
            state=f"{writer} was not started",
            next_step="see that its disk has space and may be written; then start it again",
            path=str(turn.path),
        ) from error
    return turn
