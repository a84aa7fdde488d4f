"""Records every started process in a small JSON file, so that exactly these processes can be watched and stopped."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

import psutil

from anabranch.core.control_file import ControlFile
from anabranch.core.settings import Settings

State = Literal["starting", "running", "waiting", "done"]
SUPERVISOR = "supervisor"
# The kernel counts 100 ticks a second, and psutil adds the boot time, whose value may vary by as much.
SAME_START_SECONDS = 0.05
_START = 19
"""The index of a process' start time in /proc/PID/stat, counted after its name."""
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Record:
    """A process that the platform started. ``pid`` 0: none is running at the moment; in the state ``starting`` one is
    about to be started.

    Times are Unix seconds. ``created`` is the start time by the wall clock, which may be set; for display. ``birth``
    identifies the process together with its pid: a pid may be reused after a crash, the pair can't. ``restarts`` counts
    the starts after the first.
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
    children_first: bool = False

    def process(self) -> psutil.Process | None:
        """Returns the process that was started; None if it has ended."""
        return find(self.pid, self.created, self.birth)

    def became(self, state: State, **more: Any) -> Record:
        return replace(self, state=state, **more)


RECORD: Final = ControlFile("record of a process", Record)


def birth(pid: int) -> str:
    """Returns a live process' boot id and the kernel ticks from boot to its start, which are independent of the wall
    clock; "" if the kernel doesn't provide them or the process has ended."""
    try:
        ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[_START]
        return f"{_BOOT.read_text().strip()}:{ticks}"
    except (OSError, IndexError):
        return ""


def find(pid: int, created: float, born: str = "") -> psutil.Process | None:
    """Returns the live process with this pid and birth (if that is unknown, this start time), or None."""
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
    """Returns every live process of a service: its descendants and all processes of its session, even if the process
    itself has ended.

    Each service leads its own session. While a process of a session lives, the kernel doesn't reuse the session's
    number as a pid; so if another process has this pid, nothing of the session is left. Nothing is left either of what
    ran before the machine or this container was started again: a session with this number is another one.
    """
    if record.pid <= 0:
        return _unrecorded(record) if record.state == "starting" else []
    leader = record.process()
    if _is_of_an_earlier_boot(record) or (leader is None and _in_use_by_another(record)):
        return []
    found = {p.pid: p for p in ([leader, *_descendants(leader)] if leader else [])}
    for pid in psutil.pids():  # process_iter would give the process that had a reused pid at its last call
        with contextlib.suppress(ProcessLookupError, PermissionError, psutil.Error):
            if os.getsid(pid) == record.pid and (process := psutil.Process(pid)).status() != psutil.STATUS_ZOMBIE:
                found.setdefault(pid, process)
    return list(found.values())


def _unrecorded(record: Record) -> list[psutil.Process]:
    """Returns what was started when the supervisor was killed before it could record more: a service leads a session,
    and writes to its log."""
    found, log = dict[int, psutil.Process](), Path(record.log).resolve()
    for pid in psutil.pids():
        with contextlib.suppress(OSError, psutil.Error):
            if os.getsid(pid) == pid and Path(f"/proc/{pid}/fd/1").readlink() == log:
                leader = record.became("running", pid=pid, birth=birth(pid), created=psutil.Process(pid).create_time())
                found |= {each.pid: each for each in family(leader)}
    return list(found.values())


def _is_of_an_earlier_boot(record: Record) -> bool:
    """Whether the process ran before the boot, or before the first process of this container. False if the kernel
    doesn't say."""
    (then, _, began), (now, _, first) = record.birth.partition(":"), birth(1).partition(":")
    if not (began.isdecimal() and first.isdecimal()):
        return False
    return then != now or int(began) < int(first)


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
    """Writes a record atomically."""
    RECORD.write(_path(settings, record.name), record)


def read(settings: Settings) -> dict[str, Record]:
    """Returns all records by name. Skips files that are not records."""
    found = {}
    for path in sorted(settings.run.glob("*.json")):
        with contextlib.suppress(ValueError):
            if record := RECORD.read(path):
                found[record.name] = record
    return found


def remove(settings: Settings, name: str) -> None:
    _path(settings, name).unlink(missing_ok=True)


def _path(settings: Settings, name: str) -> Path:
    return settings.run / f"{name}.json"
