"""One small JSON file per process: what was started, so that exactly that can be watched and stopped."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import psutil
from anabranch.core.settings import Settings

State = Literal["starting", "running", "waiting", "done"]
SUPERVISOR = "supervisor"
# The kernel's clock ticks 100 times a second, and psutil adds the boot time, which can be read differently by as much.
SAME_START_SECONDS = 0.05
_START = 19
"""The field of a process' start in /proc/PID/stat, counted behind its name."""
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Record:
    """A process that the platform started. ``pid`` 0 means that none runs at the moment.

    Times are Unix seconds. ``created`` is the start time of the process, by a clock that may be set: it is shown.
    ``birth`` is what a process is known by: a pid may be used again after a crash, a pid with its birth can't.
    ``restarts`` counts the starts after the first.
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
    birth: str = ""

    def process(self) -> psutil.Process | None:
        """The very process that was started, or None when it has ended."""
        return find(self.pid, self.created, self.birth)

    def became(self, state: State, **more: Any) -> Record:
        return replace(self, state=state, **more)


def birth(pid: int) -> str:
    """The boot that a live process belongs to and the kernel's ticks from then to its start, which no setting of the
    clock changes; nothing where the kernel doesn't tell, or no such process lives."""
    try:
        ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[_START]
        return f"{_BOOT.read_text().strip()}:{ticks}"
    except (OSError, IndexError):
        return ""


def find(pid: int, created: float, born: str = "") -> psutil.Process | None:
    """The live process of this pid and birth (where that isn't known: of this start time), or None."""
    if pid <= 0:
        return None
    try:
        process = psutil.Process(pid)
        same = _same(process, created, born)
        return process if same and process.status() != psutil.STATUS_ZOMBIE else None
    except psutil.NoSuchProcess:
        return None


def _same(process: psutil.Process, created: float, born: str) -> bool:
    if born:
        return born == birth(process.pid)
    return abs(process.create_time() - created) <= SAME_START_SECONDS


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
        return not _same(psutil.Process(record.pid), record.created, record.birth)
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
