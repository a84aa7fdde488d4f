"""The one small process that `anabranch up` leaves behind: it starts the parts and starts again those that die.

When it ends, the parts live on, and their records say which they are; `anabranch down` stops them.
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
from anabranch.operate.runtime import process_registry, stop_services
from anabranch.operate.runtime.process_registry import Record
from anabranch.operate.runtime.service import Restart, Service, depths

FIRST_PAUSE, LONGEST_PAUSE, HEALTHY_SECONDS = 1.0, 30.0, 60.0
POLL_SECONDS = 0.1
LOOK_SECONDS = 3.0
LOG_BYTES = 20_000_000
"""A log that is longer than this is put aside (one older file is kept) before its part starts again."""


class Ailing(Exception):
    """A part that lives and doesn't do its work."""


def next_pause(pause: float, lived: float) -> float:
    """Seconds to wait before the next start after this one, for a process that was ready for ``lived`` seconds."""
    return FIRST_PAUSE if lived >= HEALTHY_SECONDS else min(pause * 2, LONGEST_PAUSE)


@dataclass
class Watch:
    """One part under supervision; ``run`` is the body of its thread."""

    settings: Settings
    part: Service
    depth: int
    up: threading.Event
    """Set once the part was ready for the first time (a step: was done). Those that depend on it wait for this."""
    needs: list[threading.Event]
    stopping: threading.Event
    starting: threading.Lock
    """Held around the start of a process and its record, so that a stop never comes between the two."""
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
            except Exception as error:  # whatever a part's functions raise, the other parts go on
                reason = f"{type(error).__name__}: {error}"
            lived = time.monotonic() - ready_since
            pause = FIRST_PAUSE if lived >= HEALTHY_SECONDS else pause
            with suppress(OSError):  # a full disk may be what ended it: this thread has to outlive that
                self._note("waiting", detail=f"{reason}; next start in {pause:.0f} s")
            self.stopping.wait(pause)
            pause = next_pause(pause, lived)
        return None

    def _once(self) -> tuple[float, int]:
        """Start the process and wait for its end. Returns since when it was ready (monotonic), and its exit code."""
        self.restarts += 1
        self.part.prepare()
        with self.starting:
            if self.stopping.is_set():
                return time.monotonic(), 0
            process = launch(self.part)
            try:
                record = self._note("starting", pid=process.pid, created=created(process.pid))
            except OSError:  # without a record nobody could stop it
                process.kill()
                process.wait()
                raise
        ready_since = self._wait_ready(process, record)
        code = self._wait(process, record)
        if not self.stopping.is_set():
            stop_services.end(
                [record]
            )  # what a dead scheduler leaves behind must not write beside the next one's tasks
        return ready_since, code

    def _wait_ready(self, process: subprocess.Popen[bytes], record: Record) -> float:
        started = time.monotonic()
        while self.part.restart is Restart.ALWAYS and process.poll() is None and not self.stopping.is_set():
            if self.part.ready(time.monotonic() - started):
                self.up.set()
                with suppress(OSError):  # it runs, whether that can be written or not
                    process_registry.write(self.settings, record.became("running"))
                break
            if time.monotonic() - started > self.part.start_timeout:
                stop_services.end([record])
            time.sleep(POLL_SECONDS)
        return time.monotonic()

    def _wait(self, process: subprocess.Popen[bytes], record: Record) -> int:
        """The exit code. Ailing when it had to be ended."""
        while self.part.ails is not None and not self.stopping.is_set():
            if (why := self.part.ails(process.pid)) and not self.stopping.is_set():
                stop_services.end([record])
                process.wait()
                raise Ailing(why)
            with suppress(subprocess.TimeoutExpired):
                return process.wait(LOOK_SECONDS)
        return process.wait()

    def _done(self) -> None:
        self._note("done")
        self.up.set()

    def _note(self, state: process_registry.State, *, pid: int = 0, created: float = 0.0, detail: str = "") -> Record:
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
        )
        process_registry.write(self.settings, record)
        return record


def created(pid: int) -> float:
    """The kernel's start time of our own child (Unix seconds); 0 when it is gone already."""
    try:
        return psutil.Process(pid).create_time()
    except psutil.NoSuchProcess:
        return 0.0


def launch(part: Service) -> subprocess.Popen[bytes]:
    """Start a part's process as the leader of its own session, its output appended to its log."""
    part.log.parent.mkdir(parents=True, exist_ok=True)
    if part.log.exists() and part.log.stat().st_size > LOG_BYTES:
        part.log.rename(part.log.with_suffix(".log.1"))
    with part.log.open("ab") as log:
        return subprocess.Popen(
            part.command,
            cwd=part.cwd,
            env={**(os.environ if part.inherits else {}), **part.env},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            user=part.user,
        )


def supervise(settings: Settings, parts: Sequence[Service], stop: threading.Event) -> threading.Lock:
    """Start a thread for each of ``parts``, which start in the order of what they need; returns at once.

    After ``stop`` is set no process is started again. Who then takes the returned lock knows that each process
    that was started has its record.
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


def main() -> None:
    from anabranch.operate.runtime.services import parts_named

    # Set before the first start: a signal raises in the main thread, which holds no lock that a thread needs.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)
    settings, stop = load_settings(), threading.Event()
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
