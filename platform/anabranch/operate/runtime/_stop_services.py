"""Stops exactly what was started, identified by pid and birth, in reverse start order, with all child processes."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterable
from itertools import groupby

import psutil

from anabranch.core.errors import TryAgain
from anabranch.core.settings import Settings
from anabranch.operate.runtime import process_registry
from anabranch.operate.runtime.process_registry import SUPERVISOR, Record

LEFTOVER_SECONDS = 3.0
"""Seconds from SIGTERM to SIGKILL for the children of a service that has ended."""


def stop(settings: Settings) -> list[str]:
    """Stops all recorded processes. Returns the names of those that were running, in stop order.

    Works after a half-finished start, after the supervisor was killed, and if nothing runs. Safe to repeat after a
    kill. Never finds a process by its name, so other brokers on the machine are not touched. Raises TryAgain
    STILL_RUNNING, once all the others are stopped, if one outlives SIGKILL: it keeps its record.
    """
    found = process_registry.read(settings)
    if supervisor := found.get(SUPERVISOR):
        _end_alone(supervisor)  # first, or it would restart what is stopped; its children are stopped below
        process_registry.remove(settings, SUPERVISOR)
    found = {name: r for name, r in process_registry.read(settings).items() if name != SUPERVISOR}
    stopped, alive = list[str](), list[Record]()
    by_depth = sorted(found.values(), key=lambda r: (-r.depth, r.name))
    for _, group in groupby(by_depth, key=lambda r: r.depth):
        level = list(group)
        stopped += [r.name for r in level if process_registry.family(r)]
        end(level)
        for record in level:
            if any(map(_alive, process_registry.family(record))):
                alive.append(record)
            else:
                process_registry.remove(settings, record.name)
    if alive:
        held = ", ".join(f"{record.name} (pid {record.pid})" for record in alive)
        raise TryAgain(
            "STILL_RUNNING",
            f"{held} can't be ended: the kernel holds it, mostly for a disk",
            state="everything else is stopped; its record is kept, so that no other one is started beside it",
            next_step="see to the disk, then anabranch down again",
            parts=[record.name for record in alive],
        )
    return stopped


def end(level: Iterable[Record]) -> None:
    """Ends the processes of these records in parallel: stop signal, grace period, then all that is left of them."""
    waiting = [(record, process_registry.family(record), time.monotonic() + record.grace) for record in level]
    for record, _, _ in waiting:
        if not record.children_first:
            _tell(record, signal.Signals(record.stop_signal))
    for record, members, _ in waiting:
        if record.children_first:
            _tell_after_children(record, members)
    for record, members, deadline in waiting:
        _wait(record.process, deadline)
        _sweep(record, members)


def _tell(record: Record, *numbers: signal.Signals) -> None:
    for number in numbers:
        if leader := record.process():
            _send(leader, number)


def _tell_after_children(record: Record, members: Iterable[psutil.Process]) -> None:
    """Sends the stop signal to a service's children, waits for their end, and sends it to the service. That is
    suspended meanwhile, or it would take their end for a failure."""
    children, number = [p for p in members if p.pid != record.pid], signal.Signals(record.stop_signal)

    def left() -> bool:
        return any(map(_alive, children))

    _tell(record, signal.SIGSTOP)
    try:
        for child in children:
            _send(child, number)
        _wait(left, time.monotonic() + LEFTOVER_SECONDS)
        if left():  # one of them may wait for an answer of the service's
            _tell(record, signal.SIGCONT)
            _wait(left, time.monotonic() + LEFTOVER_SECONDS)
    finally:  # also on Ctrl-C: nobody would notice that it stands still
        _tell(record, number, signal.SIGCONT)


def _wait(lasts: Callable[[], object], deadline: float) -> None:
    """Waits while ``lasts()``, but not longer than until ``deadline`` by the monotonic clock."""
    while lasts() and time.monotonic() < deadline:
        time.sleep(0.05)


def _end_alone(record: Record) -> None:
    """Ends one process without its children."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if leader := record.process():
            _send(leader, number)
            with contextlib.suppress(psutil.TimeoutExpired):
                leader.wait(record.grace)


def _sweep(record: Record, members: list[psutil.Process]) -> None:
    """Sends SIGTERM, then SIGKILL, to what outlived its service: Airflow tasks, the JVM of a Python process; and to
    what is forked meanwhile."""
    left = {p.pid: p for p in members}
    for number in (signal.SIGTERM, signal.SIGKILL):
        told, deadline = set[int](), time.monotonic() + LEFTOVER_SECONDS
        while time.monotonic() < deadline:
            left |= {p.pid: p for p in process_registry.family(record)}
            left = {pid: p for pid, p in left.items() if _alive(p)}
            if not left:
                return
            for pid in left.keys() - told:
                _send(left[pid], number)
            told |= left.keys()
            time.sleep(0.05)


def _alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _send(process: psutil.Process, number: signal.Signals) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(number)  # psutil compares the start time first, so a reused pid is never signalled
