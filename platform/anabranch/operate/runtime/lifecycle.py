"""Starts and stops a platform, and reports its status. The entry point of this package."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from anabranch.core.atomic_files import locked
from anabranch.core.clocks import note_clock
from anabranch.core.errors import BadInput, BrokenState, Conflict, TryAgain
from anabranch.core.home_format import mark_home
from anabranch.core.settings import Settings
from anabranch.operate.runtime import _stop_services, process_registry
from anabranch.operate.runtime._preflight import check_all
from anabranch.operate.runtime._service import Service
from anabranch.operate.runtime._services import declares_views, parts_named, without_views
from anabranch.operate.runtime._start_failures import (
    STOPPED,
    TRIED_AGAIN,
    UNWATCHED,
    Outlook,
    check_supervisor,
    failed,
)
from anabranch.operate.runtime._supervisor import created
from anabranch.operate.runtime.environment import environment
from anabranch.operate.runtime.process_registry import SUPERVISOR, Record
from anabranch.operate.runtime.unpassed_variables import unpassed_notices

START_SECONDS = 180.0
SETTLED_SECONDS = 1.0
"""A service that ends this soon after it is ready has not come back: most refuse bad settings at once."""
TRIES = 3
"""A service that ends this many times before it is ready makes the whole start fail."""

Progress = Callable[[Mapping[str, str]], None]
"""Called several times a second during a start, with the state of each service."""


@dataclass(frozen=True, slots=True)
class PartStatus:
    """The current status of one service. Times are Unix seconds; memory is the PSS of the process and its children."""

    name: str
    state: str
    """``starting``, ``running``, ``waiting`` (for its next start), ``done`` (a one-time step) or ``dead`` (ended,
    without a supervisor)."""
    pid: int | None
    since: float | None
    memory_bytes: int
    port: int | None
    restarts: int
    log: str
    detail: str


def start(settings: Settings, parts: Sequence[str] = (), progress: Progress = lambda _: None) -> list[str]:
    """Starts these services (names or groups; none means all) with their dependencies, and waits until they are ready.

    Returns notices, for example about cleanup after an earlier start. If the same services are already running, it only
    waits for them. If one doesn't become ready, stops everything that this call started and raises BrokenState
    PART_FAILED. Raises Conflict PLATFORM_STOPPED if ``stop`` was called meanwhile.
    """
    settings.run.mkdir(parents=True, exist_ok=True)
    with _start_lock(settings):
        wanted = parts_named(settings, parts)
        notices = _clean_up(settings)
        if not declares_views(settings) and (not parts or "streams" in parts):
            notices.append(f"{without_views(settings)} and is not started; declare one, then anabranch down and up")
        notices += unpassed_notices(settings)
        if _is_running(settings, wanted):
            _wait_until_ready(settings, wanted, progress, process_registry.read(settings), TRIED_AGAIN)
            return [*notices, "the platform is already running"]
        check_all(settings, wanted)
        mark_home(settings.home)
        with suppress(BrokenState):  # maintenance says what is wrong with its file
            note_clock(settings)
        try:
            _launch_supervisor(settings, wanted)
            _wait_until_ready(settings, wanted, progress, {}, STOPPED)
        except BaseException:  # also Ctrl-C: no half-finished start may remain
            _stop_services.stop(settings)
            raise
    return notices


def stop(settings: Settings) -> list[str]:
    """Stops exactly what ``start`` started. Returns the names of what was running. Does nothing if nothing runs."""
    return _stop_services.stop(settings)


def restart(settings: Settings, name: str) -> PartStatus:
    """Ends one service as ``stop`` would, waits until the supervisor has started it again and it is ready.

    The others go on, and it gets the settings that ``start`` was given. Raises BadInput
    PART_NOT_RUNNING, BrokenState PART_FAILED if it doesn't become ready (the supervisor goes on trying) or the
    supervisor has ended, and Conflict PLATFORM_STOPPED if ``stop`` was called meanwhile.
    """
    found = process_registry.read(settings)
    before = found.get(name)
    watched = SUPERVISOR in found and found[SUPERVISOR].process() is not None
    if not watched or before is None or before.state == "done" or name == SUPERVISOR:
        parts = sorted(each for each, r in found.items() if each != SUPERVISOR and r.state != "done") if watched else []
        raise BadInput(
            "PART_NOT_RUNNING",
            f"{name!a} is no part that runs here" if watched else "the platform doesn't run",
            state="nothing was stopped",
            next_step=f"one of: {', '.join(parts)}" if parts else "anabranch up",
            parts=parts,
        )
    _stop_services.end([before])
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        found = process_registry.read(settings)
        now = found.get(name, before)
        if now.state == "running" and (now.pid, now.birth) != (before.pid, before.birth):
            time.sleep(SETTLED_SECONDS)
            if now.process():
                return _status(now, watched)
        if now.state == "waiting" and now.restarts >= before.restarts + TRIES:
            break
        check_supervisor(settings, found, UNWATCHED)
        time.sleep(0.1)
    raise failed(name, now.detail or now.state, Path(before.log), TRIED_AGAIN)


def status(settings: Settings) -> list[PartStatus]:
    """Returns the status of every started service, in start order."""
    found = process_registry.read(settings)
    watched = SUPERVISOR in found and found[SUPERVISOR].process() is not None
    ordered = sorted(found.values(), key=lambda r: (r.name != SUPERVISOR, r.depth, r.name))
    return [_status(record, watched) for record in ordered]


@contextmanager
def running(settings: Settings, parts: Sequence[str] = (), progress: Progress = lambda _: None) -> Iterator[Settings]:
    """Runs the platform (or some services) for the length of a ``with`` block."""
    start(settings, parts, progress)
    try:
        yield settings
    finally:
        stop(settings)


@contextmanager
def _start_lock(settings: Settings) -> Iterator[None]:
    """Holds the start lock. The kernel releases it when the process ends, so a killed start leaves no lock."""
    running = TryAgain("START_RUNNING", "another `anabranch up` is running", next_step="wait for it: anabranch status")
    with locked(settings.run / ".lock", refusal=running):
        yield


def _clean_up(settings: Settings) -> list[str]:
    """Removes the records of an earlier start if none of its processes lives. Raises Conflict HALF_STARTED if some live
    without a supervisor."""
    found = process_registry.read(settings)
    if (supervisor := found.get(SUPERVISOR)) and supervisor.process():
        return []
    alive = sorted(name for name, record in found.items() if name != SUPERVISOR and process_registry.family(record))
    if alive:
        raise Conflict(
            "HALF_STARTED",
            f"an earlier start left {', '.join(alive)} running without a supervisor",
            state="nothing was started; the running processes were not touched",
            next_step="anabranch down",
            parts=alive,
        )
    for name in found:
        process_registry.remove(settings, name)
    dead = sorted(name for name, record in found.items() if record.state != "done")
    return (
        [f"cleaned up after an earlier start that ended without `anabranch down` ({', '.join(dead)})"] if dead else []
    )


def _is_running(settings: Settings, wanted: Sequence[Service]) -> bool:
    found = process_registry.read(settings)
    if SUPERVISOR not in found:
        return False
    watched = set(found[SUPERVISOR].command)
    missing = [part.name for part in wanted if part.name not in watched]
    if missing:
        raise Conflict(
            "PLATFORM_RUNNING",
            f"the platform is running without {', '.join(missing)}",
            state="the running processes were not touched",
            next_step="anabranch down, then anabranch up",
            missing=missing,
        )
    return True


def _launch_supervisor(settings: Settings, parts: Sequence[Service]) -> None:
    settings.logs.mkdir(parents=True, exist_ok=True)
    log = settings.logs / f"{SUPERVISOR}.log"
    command = (sys.executable, "-m", "anabranch.operate.runtime._supervisor", *(part.name for part in parts))
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            cwd=settings.project,
            env={**os.environ, **environment(settings)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        record = Record(SUPERVISOR, "running", process.pid, created(process.pid), command, None, str(log), 99, 15, 10.0)
        process_registry.write(settings, record.became("running", birth=process_registry.birth(process.pid)))
    except BaseException:  # without a record nothing could stop it; it has started nothing yet
        process.kill()
        process.wait()
        raise
    # A long-running caller (a test, the demo) must wait for it, or it remains as a zombie when it ends.
    threading.Thread(target=process.wait, name="reap supervisor", daemon=True).start()


def _wait_until_ready(
    settings: Settings,
    parts: Sequence[Service],
    progress: Progress,
    before: Mapping[str, Record],
    outlook: Outlook,
) -> None:
    """``before``: the records at the call, whose restarts don't count as failures of this start."""
    deadline = time.monotonic() + START_SECONDS
    enough = {part.name: (before[part.name].restarts if part.name in before else -1) + TRIES for part in parts}
    states: dict[str, str] = {}
    while time.monotonic() < deadline:
        found = process_registry.read(settings)
        states = {part.name: found[part.name].state if part.name in found else "" for part in parts}
        progress(states)
        if all(state in ("running", "done") for state in states.values()):
            return
        for part in parts:
            if (r := found.get(part.name)) and r.state == "waiting" and r.restarts >= enough[part.name]:
                raise failed(part.name, r.detail.split("; next start")[0], Path(r.log), outlook)
        check_supervisor(settings, found, STOPPED if outlook is STOPPED else UNWATCHED)
        time.sleep(0.1)
    late = next(part for part in parts if states.get(part.name) not in ("running", "done"))
    raise failed(late.name, f"not ready after {START_SECONDS:.0f} s", late.log, outlook)


def _status(record: Record, watched: bool) -> PartStatus:
    members = process_registry.family(record) if record.name != SUPERVISOR else [p for p in [record.process()] if p]
    leader = record.process()
    state: str = record.state
    if not leader and state != "done":
        state = "waiting" if watched else "dead"
    return PartStatus(
        name=record.name,
        state=state,
        pid=record.pid if leader else None,
        since=record.created if leader else None,
        memory_bytes=sum(_memory(process) for process in members),
        port=record.port,
        restarts=record.restarts,
        log=record.log,
        detail=record.detail,
    )


def _memory(process: psutil.Process) -> int:
    """The PSS, which counts pages shared by forked workers once; the RSS if the kernel denies access."""
    try:
        return int(getattr(process.memory_full_info(), "pss", 0))
    except psutil.NoSuchProcess:
        return 0
    except psutil.AccessDenied:
        return int(process.memory_info().rss)
