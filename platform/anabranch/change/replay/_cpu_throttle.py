"""CPU throttle: let a process run only for a share of each tenth of a second, with SIGSTOP and SIGCONT.

A low priority is not enough: two processes share caches and memory even if each has a core, so a live stream is slowed
for the whole of each burst. The kernel's quota (cpu.max) needs rights that a container rarely has.

A stopped process never continues by itself, so whatever stops it must not die in between. The throttle is therefore a
separate program (this file): it sends SIGCONT when its owner dies, and its owner sends SIGCONT when the program dies.
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
"""Seconds. A stream's micro-batch takes longer, so each one is slowed by the same share."""


class Throttle:
    """Limits process ``pid`` to a share of the time, until ``close``."""

    def __init__(self, pid: int) -> None:
        self._pid, self._share, self._closed = pid, 1.0, False
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def set(self, share: float) -> None:
        """Let it run for ``share`` (above 0, up to 1) of each period from now on."""
        with self._lock:
            self._share = share
            if self._closed or (share >= 1 and self._process is None):
                return
            if self._process is None:
                self._start()
            self._send_share()

    def close(self) -> None:
        """Let it run without a limit."""
        with self._lock:
            self._closed, process = True, self._process
        if process is not None and process.stdin is not None:
            process.stdin.close()
            process.wait()

    def _start(self) -> None:
        self._process = subprocess.Popen([sys.executable, __file__, str(self._pid)], stdin=subprocess.PIPE)
        threading.Thread(target=self._watch, args=(self._process,), name="throttle", daemon=True).start()

    def _send_share(self) -> None:
        assert self._process is not None  # noqa: S101 - started before
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        with contextlib.suppress(BrokenPipeError):  # it has died: the watching thread starts another one
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
                self._send_share()


def main(pid: int) -> None:
    """Stop and continue ``pid`` in turns. Reads shares as lines from stdin, and ends when stdin is closed."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    share, buffer = 1.0, b""
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
                *lines, buffer = (buffer + read).split(b"\n")
                share = float(lines[-1]) if lines else share
    except ProcessLookupError:
        return
    finally:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, signal.SIGCONT)


if __name__ == "__main__":
    main(int(sys.argv[1]))
