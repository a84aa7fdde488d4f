"""The background process of `anabranch up`: starts the services and restarts those that die.

If it is killed, the services keep running; `anabranch down` finds them by their records and stops them, also one that
was started a moment before and has no pid in its record yet.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import psutil

from anabranch.core.settings import Settings, load_settings
from anabranch.operate.runtime import _stop_services, process_registry
from anabranch.operate.runtime._service import Restart, Service, depths
from anabranch.operate.runtime.process_registry import SUPERVISOR, Record

FIRST_PAUSE, LONGEST_PAUSE, HEALTHY_SECONDS = 1.0, 30.0, 60.0
POLL_SECONDS = 0.1
HEALTH_CHECK_SECONDS = 3.0
RECORD_SECONDS = 30.0
"""How long the supervisor waits for its record before it starts anything."""
LOG_BYTES = 20_000_000
"""A log longer than this is rotated (one older file is kept) before its service is restarted."""


class Unhealthy(Exception):
    """A process runs but doesn't do its work."""


def next_pause(pause: float, lived: float) -> float:
    """Returns the pause after the next end of the process, if it was ready for ``lived`` seconds this time."""
    return FIRST_PAUSE if lived >= HEALTHY_SECONDS else min(pause * 2, LONGEST_PAUSE)


@dataclass
class Watch:
    """Supervises one service; ``run`` is the body of its thread."""

    settings: Settings
    part: Service
    depth: int
    up: threading.Event
    """Set when the service is ready for the first time (a one-time step: done). Its dependents wait for this."""
    needs: list[threading.Event]
    stopping: threading.Event
    starting: threading.Lock
    """Held while a process is started and recorded, so that a stop never comes between the two."""
    restarts: int = field(default=-1)

    def run(self) -> None:
        for need in self.needs:
            while not need.wait(POLL_SECONDS):
                if self.stopping.is_set():
                    return None
        pause = FIRST_PAUSE
        while not self.stopping.is_set():
            ready_since = time.monotonic()
            try:
                if not self.part.needed():
                    return self._done()
                ready_since, ended_with = self._once()
                if self.stopping.is_set():
                    return None
                if self.part.restart is Restart.ONCE and ended_with == 0:
                    self.part.finish()
                    return self._done()
                reason = f"ended with {ended_with}"
            except Exception as error:  # whatever this service's functions raise, the others keep running
                reason = f"{type(error).__name__}: {error}"
            lived = time.monotonic() - ready_since
            pause = FIRST_PAUSE if lived >= HEALTHY_SECONDS else pause
            with suppress(OSError):  # a full disk may be the cause: this thread must survive it
                self._record("waiting", detail=f"{reason}; next start in {pause:.0f} s")
            self.stopping.wait(pause)
            pause = next_pause(pause, lived)
        return None

    def _once(self) -> tuple[float, int]:
        """Starts the process and waits for its end. Returns the monotonic time it became ready, and its exit code."""
        self.restarts += 1
        self.part.prepare()
        with self.starting:
            if self.stopping.is_set():
                return time.monotonic(), 0
            self._record("starting")  # if this process is killed before it knows the pid, the part is still found
            process = launch(self.part)
            try:
                record = self._record("starting", pid=process.pid, created=created(process.pid))
            except OSError:  # without a record nothing could stop it
                process.kill()
                process.wait()
                raise
        try:
            ready_since = self._wait_ready(process, record)
            code = self._wait(process, record)
        except Exception:  # whatever its checks raise: the next one must not run beside it
            _stop_services.end([record])
            process.wait()
            raise
        if not self.stopping.is_set():
            _stop_services.end([record])  # tasks of a dead scheduler must not write at the same time as the next one's
        return ready_since, code

    def _wait_ready(self, process: subprocess.Popen[bytes], record: Record) -> float:
        started = time.monotonic()
        while self.part.restart is Restart.ALWAYS and process.poll() is None and not self.stopping.is_set():
            if self.part.ready(time.monotonic() - started):
                self.up.set()
                with suppress(OSError):  # it runs, even if that can't be recorded
                    process_registry.write(self.settings, record.became("running"))
                break
            if time.monotonic() - started > self.part.start_timeout:
                _stop_services.end([record])
            time.sleep(POLL_SECONDS)
        return time.monotonic()

    def _wait(self, process: subprocess.Popen[bytes], record: Record) -> int:
        """Returns the exit code. Raises Unhealthy if the health check failed; the process still runs then."""
        while self.part.unhealthy_reason is not None and not self.stopping.is_set():
            if (why := self.part.unhealthy_reason(process.pid)) and not self.stopping.is_set():
                raise Unhealthy(why)
            with suppress(subprocess.TimeoutExpired):
                return process.wait(HEALTH_CHECK_SECONDS)
        return process.wait()

    def _done(self) -> None:
        self._record("done")
        self.up.set()

    def _record(self, state: process_registry.State, *, pid: int = 0, created: float = 0.0, detail: str = "") -> Record:
        record = Record(
            name=self.part.name,
            state=state,
            pid=pid,
            created=created,
            command=self.part.command,
            port=self.part.port,
            log=str(self.part.log),
            depth=self.depth,
            stop_signal=int(self.part.stop_signal),
            grace=self.part.grace,
            restarts=max(self.restarts, 0),
            detail=detail,
            birth=process_registry.birth(pid),
            children_first=self.part.children_first,
        )
        process_registry.write(self.settings, record)
        return record


def created(pid: int) -> float:
    """The start time of our own child by the kernel (Unix seconds); 0 if it has already ended."""
    try:
        return psutil.Process(pid).create_time()
    except psutil.NoSuchProcess:
        return 0.0


def launch(part: Service) -> subprocess.Popen[bytes]:
    """Starts a service's process as the leader of its own session, and appends its output to its log."""
    part.log.parent.mkdir(parents=True, exist_ok=True)
    if part.log.exists() and part.log.stat().st_size > LOG_BYTES:
        part.log.rename(part.log.with_suffix(".log.1"))
    with part.log.open("ab") as log:
        return subprocess.Popen(
            part.command,
            cwd=part.cwd,
            env=part.env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            user=part.user,
        )


def supervise(settings: Settings, parts: Sequence[Service], stop: threading.Event) -> threading.Lock:
    """Starts a thread per service; the services start in the order of their dependencies. Returns immediately.

    After ``stop`` is set, no process is started. A caller that then takes the returned lock knows that every started
    process has its record.
    """
    depth = depths(tuple(parts))
    up = {part.name: threading.Event() for part in parts}
    starting = threading.Lock()
    for part in parts:
        needs = [up[name] for name in part.depends_on if name in up]
        watch = Watch(settings, part, depth[part.name], up[part.name], needs, stop, starting)
        threading.Thread(target=watch.run, name=part.name, daemon=True).start()
    return starting


def _leave(*_: object) -> None:
    raise SystemExit(0)


def _is_recorded(settings: Settings) -> bool:
    """Whether this process has its record, which its starter writes; waits for it."""
    until = time.monotonic() + RECORD_SECONDS
    while time.monotonic() < until:
        record = process_registry.read(settings).get(SUPERVISOR)
        if record is not None and record.pid == os.getpid():
            return True
        time.sleep(POLL_SECONDS)
    return False


def main() -> None:
    from anabranch.operate.runtime._services import parts_named

    # Installed before the first start: a signal raises in the main thread, which holds no lock that a thread needs.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)
    settings, stop = load_settings(), threading.Event()
    if not _is_recorded(settings):
        return  # whoever started it has died in between: nothing could stop what it would start
    starting = supervise(settings, parts_named(settings, sys.argv[1:]), stop)
    try:
        while True:
            signal.pause()
    finally:
        stop.set()
        with starting:
            pass


if __name__ == "__main__":
    main()
