"""Who holds a file lock, and the end of a holder that is stopped (ADR 50).

The kernel is asked who holds a lock now, so nothing that a crash leaves can mislead. What holders write next to the
lock is text for people, about processes that can't be seen from here: those of another container or user, or any where
the system has no /proc.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from uuid import uuid4

import psutil

from anabranch.core.text.terminal_text import printable

STOPPED_SECONDS: Final = 30.0
"""A holder that is stopped (SIGSTOP) for so long without a break is ended."""
_END_SECONDS: Final = 10.0
"""How long a killed process may take to end."""
_SHOWN: Final = 120
_PROCESSES: Final = Path("/proc")
_SWITCHES: Final = ("voluntary_ctxt_switches", "nonvoluntary_ctxt_switches")
LOGGER = logging.getLogger(__name__)


@dataclass
class Holders:
    """The processes that hold the lock ``path``, which is open as ``file``, while this one waits for it."""

    path: Path
    file: int
    _stopped: dict[int, tuple[tuple[str, ...], float]] = field(default_factory=dict)
    """By pid: what doesn't change while it is stopped, and since when (monotonic clock) it has been seen like that."""

    def look(self) -> bool:
        """End each holder that has been stopped for ``STOPPED_SECONDS``. Returns whether the lock will be free without
        a wait for a process that runs: every holder is stopped, or was just ended."""
        pids, now, seen = holders_of(self.file), time.monotonic(), self._stopped
        self._stopped, free = {}, bool(pids)
        for pid in pids:
            if (state := _stopped_state(pid)) is None:
                free = False
                continue
            before, since = seen.get(pid, (state, now))
            if before != state:  # it ran since the last look
                free, since = False, now
            elif now - since >= STOPPED_SECONDS:
                free = self._end(pid, state) and free
                continue
            self._stopped[pid] = (state, since)
        return free

    def _end(self, pid: int, state: tuple[str, ...]) -> bool:
        """Kill the holder, unless it runs again; whether it has ended. What it has started dies before it, so that
        after a kill of this process the next one that waits finds the same."""
        opened, send = getattr(os, "pidfd_open", None), getattr(signal, "pidfd_send_signal", None)
        if opened is None or send is None:  # not Linux, or a Python that was built for an old one
            return False
        said = _described(pid)
        try:
            process = opened(pid)  # a number that is reused meanwhile names another process, this doesn't
        except ProcessLookupError:
            return True
        except OSError:  # the system doesn't allow it
            return False
        try:
            if _stopped_state(pid) != state or not _holds(pid, self.file):
                return False
            LOGGER.warning(
                "ending %s: it was stopped for %.0f s and held the lock %s", said, STOPPED_SECONDS, self.path.name
            )
            for each in _engine_of(pid):
                with suppress(psutil.Error):
                    each.kill()
            send(process, signal.SIGKILL)
            return bool(select.select([process], [], [], _END_SECONDS)[0])
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        finally:
            os.close(process)

    def named(self) -> str:
        """The holders, for people."""
        seen = [_described(pid) for pid in holders_of(self.file)]
        if seen:
            return ", ".join(seen)
        said = ", ".join(_notes_of_unseen(self.path))
        return f"a process that can't be seen from here ({said or 'another container or user'})"


def holders_of(file: int) -> list[int]:
    """The processes that hold the lock of the open ``file`` now, as far as this one may see them."""
    return [pid for pid in psutil.pids() if _holds(pid, file)]


def _holds(pid: int, file: int) -> bool:
    """Follows only descriptors with the lock's name: one on a network mount whose server has gone would block this
    process, and nothing could end it."""
    with suppress(OSError):  # it has ended, or is another user's
        name = f"/{(_PROCESSES / 'self' / 'fd' / str(file)).readlink().name}"
        with os.scandir(f"{_PROCESSES}/{pid}/fd") as descriptors:
            return any(_is_open_as(each.path, name) and _is_locked(pid, each.name, file) for each in descriptors)
    return False


def _is_open_as(descriptor: str, name: str) -> bool:
    with suppress(OSError):
        return os.readlink(descriptor).endswith(name)  # noqa: PTH115 - a Path takes longer
    return False


def _is_locked(pid: int, descriptor: str, file: int) -> bool:
    """A file that is only open has no such line."""
    with suppress(OSError):
        text = (_PROCESSES / str(pid) / "fdinfo" / descriptor).read_text()
        opened = _PROCESSES / str(pid) / "fd" / descriptor
        return "\nlock:" in text and os.path.samestat(opened.stat(), os.fstat(file))
    return False


def _stopped_state(pid: int) -> tuple[str, ...] | None:
    """What doesn't change while a process is stopped: how often each thread has run. None if one isn't stopped, or a
    debugger has stopped it."""
    found = list[str]()
    try:
        for thread in sorted((_PROCESSES / str(pid) / "task").iterdir()):
            status = _fields((thread / "status").read_text())
            if not status["State"].startswith("T") or status["TracerPid"] != "0":
                return None
            found.append(" ".join((thread.name, *(status[name] for name in _SWITCHES))))
    except (OSError, KeyError):
        return None
    return tuple(found) or None


def _fields(text: str) -> Mapping[str, str]:
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def _engine_of(pid: int) -> list[psutil.Process]:
    """What the process has started in its session: its JVM, which may be stopped as well, and then wouldn't notice
    its end. The JVM of spark-submit is its parent. Not this process, nor what it runs in: a shell, for example."""
    with suppress(psutil.Error, OSError):
        process, session, own = psutil.Process(pid), os.getsid(pid), psutil.Process()
        found = [each for each in process.children(recursive=True) if _is_in(each, session)]
        parent = process.parent()
        if parent is not None and _is_in(parent, session) and "SparkSubmit" in " ".join(parent.cmdline()):
            found.append(parent)
        spared = {own, *own.parents()}
        return [each for each in found if each not in spared]
    return []


def _is_in(process: psutil.Process, session: int) -> bool:
    try:
        return os.getsid(process.pid) == session
    except OSError:
        return False


def _described(pid: int) -> str:
    if pid == os.getpid():
        return f"this process (pid {pid})"
    with suppress(psutil.Error):
        return f"pid {pid} ({_shortened(psutil.Process(pid).cmdline())})"
    return f"pid {pid}"


def _shortened(command: list[str]) -> str:
    text = printable(" ".join(" ".join(command).split()))
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


@contextmanager
def noted(path: Path, *, alone: bool) -> Iterator[None]:
    """Say next to the lock ``path`` who holds it, for people where it can't be seen. ``alone``: nobody else holds it,
    so other notes are left by killed processes. A disk that takes no note is no reason not to go on."""
    note = path.with_name(f"{_prefix(path)}{uuid4().hex}")
    with suppress(OSError, psutil.Error):
        for old in _notes(path):
            if alone or _is_left(old.read_text(errors="replace")):
                old.unlink(missing_ok=True)
        command = _shortened(psutil.Process().cmdline())
        note.write_text(f"pid {os.getpid()}{_here()}{datetime.now(UTC):%F %T} UTC: {command}")
    try:
        yield
    finally:
        with suppress(OSError):
            note.unlink(missing_ok=True)


def _notes_of_unseen(path: Path) -> list[str]:
    """What holders say that can't be seen. Notes of ended processes only without others: a container with this host's
    name may have such a process."""
    found = list[str]()
    for note in _notes(path):
        with suppress(OSError):
            found.append(printable(note.read_text(errors="replace")))
    return [text for text in found if not _is_left(text)] or found


def _is_left(note: str) -> bool:
    """Whether a process of this host wrote it and has ended; of other hosts nobody knows."""
    pid, here, _ = note.removeprefix("pid ").partition(_here())
    return bool(here) and pid.isdecimal() and not _exists(int(pid))


def _exists(pid: int) -> bool:
    """Unlike psutil's answer also right where /proc hides other users' processes."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def _here() -> str:
    return f" on {socket.gethostname()} since "


def _notes(path: Path) -> list[Path]:
    return sorted(each for each in path.parent.iterdir() if each.name.startswith(_prefix(path)))


def _prefix(path: Path) -> str:
    return f"{path.name}.holder-"
