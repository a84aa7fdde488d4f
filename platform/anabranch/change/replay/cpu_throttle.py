"""A process that runs for a part of each tenth of a second only.

Priorities don't do it: two processes share caches and memory even where each has a core, and what a live stream feels
of a burst it feels for the whole of the burst. Nor does the kernel's own quota (cpu.max): it needs rights that a
container rarely has. So somebody stops the process and lets it go on, ten times a second.

Whoever does that must not die in between, for a stopped process never goes on by itself. It is a program of its own
(this file): it lets go when its owner dies, and its owner lets go when it does.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time

PERIOD = 0.1
"""Seconds. A stream's micro-batch takes longer, so it meets the same share of them always."""


class Throttle:
    """Holds process ``pid`` to a share of its time, until ``close``."""

    def __init__(self, pid: int) -> None:
        self._pid, self._share, self._closed = pid, 1.0, False
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def set(self, share: float) -> None:
        """It runs for ``share`` (above 0, up to 1) of each period from now on."""
        with self._lock:
            self._share = share
            if self._closed or (share >= 1 and self._process is None):
                return
            if self._process is None:
                self._start()
            self._say()

    def close(self) -> None:
        """Let it run freely."""
        with self._lock:
            self._closed, process = True, self._process
        if process is not None and process.stdin is not None:
            process.stdin.close()
            process.wait()

    def _start(self) -> None:
        self._process = subprocess.Popen([sys.executable, __file__, str(self._pid)], stdin=subprocess.PIPE)
        threading.Thread(target=self._watch, args=(self._process,), name="throttle", daemon=True).start()

    def _say(self) -> None:
        assert self._process is not None  # noqa: S101 - started before
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        with contextlib.suppress(BrokenPipeError):  # it has died: whoever watches starts another one
            self._process.stdin.write(f"{self._share}\n".encode())
            self._process.stdin.flush()

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        process.wait()
        if process.stdin is not None:
            process.stdin.close()
        try:
            os.kill(self._pid, signal.SIGCONT)
        except ProcessLookupError:
            return
        with self._lock:
            if not self._closed:
                self._start()
                self._say()


def main(pid: int) -> None:
    """Stop and continue ``pid``; shares come as lines of stdin, whose end is the end."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    share, told = 1.0, b""
    for stop in (signal.SIGTERM, signal.SIGINT):
        signal.signal(stop, lambda *_: sys.exit(0))
    try:
        while True:
            signal.pidfd_send_signal(process, signal.SIGCONT)
            if share < 1:
                time.sleep(PERIOD * share)
                signal.pidfd_send_signal(process, signal.SIGSTOP)
            ready, _, _ = select.select([0], [], [], PERIOD * (1 - share) if share < 1 else None)
            if ready:
                read = os.read(0, 4096)
                if not read:
                    return
                *lines, told = (told + read).split(b"\n")
                share = float(lines[-1]) if lines else share
    except ProcessLookupError:
        return
    finally:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, signal.SIGCONT)


if __name__ == "__main__":
    main(int(sys.argv[1]))
