"""One small JSON file per process: what was started, so that exactly that can be watched and stopped."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import psutil

from anabranch.settings import Settings

State = Literal["starting", "running", "waiting", "done"]
SUPERVISOR = "supervisor"
# The kernel's clock ticks 100 times a second, and psutil adds the boot time, which can be read differently by as much.
SAME_START_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Record:
    """A process that the platform started. ``pid`` 0 means that none runs at the moment.

    Times are Unix seconds. ``created`` is the kernel's start time of the process: a pid may be used again after a
    crash, a pid with its start time can't. ``restarts`` counts the starts after the first.
    """

    name: str
    state: State
    pid: int
    created: float
    command: tuple[str, ...]
    port: int | None
    log: str
    depth: int
    stop_signal: int
    grace: float
    restarts: int = 0
    detail: str = ""

    def process(self) -> psutil.Process | None:
        """The very process that was started, or None when it has ended."""
        return find(self.pid, self.created)

    def became(self, state: State, **more: Any) -> Record:
        return replace(self, state=state, **more)


def find(pid: int, created: float) -> psutil.Process | None:
    """The live process of this pid and start time (Unix seconds), or None."""
    if pid <= 0:
        return None
    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - created) <= SAME_START_SECONDS
        return process if same and process.status() != psutil.STATUS_ZOMBIE else None
    except psutil.NoSuchProcess:
        return None


def family(record: Record) -> list[psutil.Process]:
    """Every live process of a part: its descendants and all of its session, also when the process itself is gone.

    Each part leads its own session. While anything of a session lives, the kernel gives its number to no other
    process; so when another process has it, nothing of ours is left.
    """
    leader = record.process()
    if record.pid <= 0 or (leader is None and _in_use_by_another(record)):
        return []
    found = {p.pid: p for p in ([leader, *_descendants(leader)] if leader else [])}
    for process in psutil.process_iter():
        with contextlib.suppress(ProcessLookupError, PermissionError, psutil.Error):
            if os.getsid(process.pid) == record.pid and process.status() != psutil.STATUS_ZOMBIE:
                found.setdefault(process.pid, process)
    return list(found.values())


def _in_use_by_another(record: Record) -> bool:
    try:
        return abs(psutil.Process(record.pid).create_time() - record.created) > SAME_START_SECONDS
    except psutil.NoSuchProcess:
        return False


def _descendants(leader: psutil.Process) -> list[psutil.Process]:
    try:
        return leader.children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def write(settings: Settings, record: Record) -> None:
    """Write a record in one step; a reader sees the old one or the new one."""
    settings.run.mkdir(parents=True, exist_ok=True)
    path = _path(settings, record.name)
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    new.write_text(json.dumps(asdict(record), indent=1))
    new.rename(path)


def read(settings: Settings) -> dict[str, Record]:
    """All records by name. A file that is no record (from another version) is left out."""
    found = {}
    for path in sorted(settings.run.glob("*.json")):
        try:
            raw = json.loads(path.read_text())
            record = Record(**(raw | {"command": tuple(raw["command"])}))
        except (FileNotFoundError, ValueError, TypeError, KeyError):
            continue
        found[record.name] = record
    return found


def remove(settings: Settings, name: str) -> None:
    _path(settings, name).unlink(missing_ok=True)


def _path(settings: Settings, name: str) -> Path:
    return settings.run / f"{name}.json"
