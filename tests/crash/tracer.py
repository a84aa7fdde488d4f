"""Run a program; note each change of the file system's names, or kill it exactly before or after one of them.

A process of its own: whoever traces waits for every child there is, and may be no other thread than the one that began.

    python -m crash.tracer '{"under": "/home"}' -- PROGRAM ARGUMENT...

The last line of stdout is JSON: ``calls`` (operation and path, in their order), ``killed``, ``answered``, ``code`` (the
exit code of the program, negative for a signal). The program's own output goes to stderr. A program that is to be
stopped: a line ``stopped`` says that it is, and SIGCONT to the tracer lets it go on.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from crash.calls import (
    CONT,
    EVENT_SECCOMP,
    EVENT_STOP,
    LISTEN,
    SYSCALL,
    SYSCALL_STOP,
    Call,
    answer,
    be_held,
    call_of,
    ptrace,
    seize,
)

_ALL_THREADS = 0x40000000
_STOPPING = (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)


@dataclass(frozen=True, slots=True)
class Blow:
    """SIGKILL at the ``nth`` call (from 1) of ``operation`` whose path matches ``path``, ``after`` or before it takes
    effect. ``alone``: only the process that makes it; else every process that the program has started. ``answer``:
    nobody is killed; the call takes effect, and its caller is told of this error (an errno). ``unread``: from that
    answer on nothing below this folder can be read: it is renamed to ``<folder>.away``, and a file has its name.
    ``refused``: with ``answer``; the call is taken back before it is answered, so that it had no effect.
    ``stop``: nobody is killed; the process that makes the call gets SIGSTOP, and none of its threads goes on (the one
    that calls is held at its call, where no signal stops a thread) until the tracer gets SIGCONT."""

    operation: str
    path: str
    nth: int = 1
    after: bool = False
    alone: bool = False
    answer: int = 0
    unread: str = ""
    refused: bool = False
    stop: bool = False


@dataclass
class Traced:
    """What is known of one run. ``under``: only paths below this folder are noted."""

    under: str
    blow: Blow | None = None
    seconds: int = 300
    calls: list[Call] = field(default_factory=list)
    killed: bool = False
    answered: bool = False
    stopped: tuple[int, int] | None = None
    at: str = ""
    code: int | None = None

    def run(self, program: Sequence[str] | Callable[[], object]) -> None:
        """``program``: a command, or what a process of its own does that is forked from this one."""
        first = _held(program)
        signal.signal(signal.SIGALRM, lambda *_: self._kill(known, first))
        signal.signal(signal.SIGCONT, lambda *_: self._wake())
        signal.alarm(self.seconds)
        known, leaving = {first}, set[int]()
        matched = 0
        while True:
            try:
                pid, status = os.waitpid(-1, _ALL_THREADS)
            except ChildProcessError:
                return
            if not os.WIFSTOPPED(status):
                known.discard(pid)
                if pid == first:
                    self.code = os.waitstatus_to_exitcode(status)
                continue
            known.add(pid)
            stop, event = os.WSTOPSIG(status), status >> 16
            if event == EVENT_SECCOMP:
                call = call_of(pid)
                hit = call is not None and call.path.startswith(self.under) and self._note(call)
                matched += hit
                if hit and self.blow and matched == self.blow.nth and not self.killed:
                    self.at = call.path if call else ""
                    if self.blow.after or self.blow.answer:
                        leaving.add(pid)
                        ptrace(SYSCALL, pid)
                        continue
                    if self._strike(known, pid):
                        continue
                ptrace(CONT, pid)
            elif stop == signal.SIGTRAP | SYSCALL_STOP:
                if pid in leaving:
                    leaving.discard(pid)
                    if self._strike(known, pid):
                        continue
                ptrace(CONT, pid)
            elif event == EVENT_STOP and stop in _STOPPING:
                ptrace(LISTEN, pid)
            else:
                ptrace(CONT, pid, 0, 0 if event else stop)

    def _note(self, call: Call) -> bool:
        """Whether it is one of those that the blow is about."""
        if self.blow is None:
            self.calls.append(call)
            return False
        return call.operation == self.blow.operation and re.fullmatch(self.blow.path, call.path) is not None

    def _strike(self, known: set[int], thread: int) -> bool:
        """Whether the thread stays where it is."""
        assert self.blow is not None
        if self.blow.stop:
            process = _process_of(thread)
            os.kill(process, signal.SIGSTOP)
            self.stopped = process, thread
            print("stopped", flush=True)  # noqa: T201
            return True
        if self.blow.answer:
            if self.blow.refused:
                Path(self.at).unlink()
            self.answered = answer(thread, self.blow.answer)
            if self.blow.unread:
                folder = Path(self.blow.unread)
                folder.rename(f"{folder}.away")
                folder.touch()
            return False
        self.killed = True
        self._kill({thread} if self.blow.alone else known, thread)
        return False

    def _wake(self) -> None:
        if self.stopped is not None:
            process, thread = self.stopped
            self.stopped = None
            os.kill(process, signal.SIGCONT)
            ptrace(CONT, thread)

    @staticmethod
    def _kill(pids: set[int], first: int) -> None:
        for pid in {first, *pids}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _process_of(thread: int) -> int:
    said = Path(f"/proc/{thread}/status").read_text()
    return int(said.partition("\nTgid:")[2].split()[0])


def _held(program: Sequence[str] | Callable[[], object]) -> int:
    """Start the program, held from its first instruction on; its process id."""
    waiting, go = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(go)
            os.dup2(2, 1)
            os.read(waiting, 1)
            be_held()
            if callable(program):
                program()
                sys.stdout.flush()
                os._exit(0)
            os.execvp(program[0], [*program])  # noqa: S606 - a program of the sweep's own
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(127)
    os.close(waiting)
    seize(pid)
    os.write(go, b"g")
    os.close(go)
    return pid


def trace(traced: Traced, program: Sequence[str] | Callable[[], object]) -> None:
    """Run the program to its end, and say on stdout what was seen."""
    traced.run(program)
    calls = [asdict(call) for call in traced.calls]
    print(json.dumps({"calls": calls, "killed": traced.killed, "answered": traced.answered, "code": traced.code}))  # noqa: T201


def main(argv: list[str]) -> int:
    told: dict[str, Any] = json.loads(argv[1])
    if argv[2:3] != ["--"]:
        raise SystemExit(__doc__)
    blow = Blow(**told["blow"]) if told.get("blow") else None
    trace(Traced(told["under"], blow, told.get("seconds", 300)), argv[3:])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
