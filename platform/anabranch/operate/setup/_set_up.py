"""Resolves the JARs, then writes the class archives; each only if it is missing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from anabranch.core.errors import TryAgain
from anabranch.core.settings import Settings
from anabranch.operate.setup.resolve_jars import STAMP, ivy_home, stamp

_FOLDER = Path(__file__).parent
TELL_SECONDS = 5.0
"""How often a step that takes long says so."""
_POLL_SECONDS = 0.05
_LISTS = {"spark": (), "kafka": ("--transitive",)}
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Program:
    """A program of a step; its output goes to ``log``. ``measured``: what is shown of it with its time."""

    command: Sequence[str]
    log: Path
    env: Mapping[str, str] | None = field(default=None, hash=False)
    measured: Callable[[], str] = lambda: ""


def set_up(settings: Settings, tell: Tell = lambda _: None) -> None:
    """Resolves what is missing. ``tell`` is called before each step, every few seconds while it runs, and with its size
    and time when it has ended. Raises TryAgain JARS_UNRESOLVED. Safe to kill and repeat: each folder appears
    atomically."""
    from anabranch.core.engine.java_options import class_archive
    from anabranch.operate.runtime.kafka_server import broker_archive

    settings.jars.mkdir(parents=True, exist_ok=True)
    archives = {"spark": class_archive(settings), "kafka": broker_archive(settings)}
    unresolved = [name for name in _LISTS if not _is_resolved(settings, name)]
    for name in unresolved:
        archives[name].unlink(missing_ok=True)  # of other JARs
    if unresolved:
        _resolve(settings, unresolved, tell)
    for former in set(settings.jars.glob("*.jsa")) - set(archives.values()):
        former.unlink()
    used = ["spark"] if settings.bootstrap_servers else [*archives]  # with another cluster no broker is started here
    missing = {name: archives[name] for name in used if not archives[name].exists()}
    if missing:
        tell("archiving the classes of engine and broker (a minute, 250 MB; without it both start more slowly)")
        began, given = time.monotonic(), {**os.environ, "ANABRANCH_JARS": str(settings.jars)}
        command = [sys.executable, "-m", "anabranch.operate.setup._archive_classes"]
        programs = {name: Program([*command, name], settings.jars / f"{name}-archive.log", given) for name in missing}
        ended = _run(programs, tell)
        for name in filter(ended.get, programs):
            tell(f"a class archive is missing: see {programs[name].log}")
        if not any(ended.values()):
            tell(f"  {' and '.join(map(_megabytes, missing.values()))} in {time.monotonic() - began:.0f} s")


def _resolve(settings: Settings, names: Sequence[str], tell: Tell) -> None:
    """Resolves these lists at once: most of it is waiting."""
    tell(f"resolving the JARs of {' and '.join(map(str.capitalize, names))} from Maven into {settings.jars}")
    began, programs = time.monotonic(), {name: _resolving(settings, name) for name in names}
    ended = _run(programs, tell)
    for name in filter(ended.get, programs):
        log = programs[name].log
        raise TryAgain(
            "JARS_UNRESOLVED",
            f"the JARs of {name.capitalize()} couldn't be resolved: {_last_line(log)}",
            state="JARs that were resolved before are kept; nothing else has changed",
            next_step=f"see {log}; check the network and Ivy's settings, then: anabranch setup",
        )
    jars = [file for name in names for file in (settings.jars / name).glob("*.jar")]
    tell(f"  {len(jars)} JARs, {sum(map(_size, jars)):,.0f} MB, in {time.monotonic() - began:.0f} s")


def _is_resolved(settings: Settings, name: str) -> bool:
    made = settings.jars / name / STAMP
    return made.exists() and made.read_text() == stamp(_FOLDER / f"{name}.jars.lock")


def _resolving(settings: Settings, name: str) -> Program:
    script, listing, folder = _FOLDER / "resolve_jars.py", _FOLDER / f"{name}.jars.lock", settings.jars / name
    command = [sys.executable, str(script), str(listing), str(folder), *_LISTS[name]]
    found = ivy_home(folder)
    return Program(
        command, settings.jars / f"{name}.log", measured=lambda: f", {_megabytes(found)} of {name.capitalize()}'s JARs"
    )


def _run(programs: Mapping[str, Program], tell: Tell) -> dict[str, int]:
    """Runs programs at once, and returns their exit codes by name. Tells every few seconds how long they have run, and
    what was measured of those that still run."""
    began, ended = time.monotonic(), dict[str, int]()
    with ExitStack() as stack:
        running = dict[str, subprocess.Popen[bytes]]()
        try:
            for name, program in programs.items():
                log = stack.enter_context(program.log.open("w"))
                process = subprocess.Popen(
                    program.command, env=program.env, stdout=log, stderr=log, start_new_session=True
                )
                running[name] = stack.enter_context(process)
            told = time.monotonic()
            while running:
                for name in [name for name, process in running.items() if process.poll() is not None]:
                    ended[name] = running.pop(name).returncode
                if running and time.monotonic() - told >= TELL_SECONDS:
                    told = time.monotonic()
                    tell(f"  {told - began:.0f} s{''.join(programs[name].measured() for name in running)}")
                time.sleep(_POLL_SECONDS)
        except BaseException:  # Ctrl-C, too: they must not go on alone, nor the engine or broker that they started
            for process in running.values():
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            raise
    return ended


def _megabytes(path: Path) -> str:
    files = path.rglob("*.jar") if path.is_dir() else [path]
    return f"{sum(map(_size, files)):,.0f} MB"


def _size(file: Path) -> float:
    """In megabytes; 0 if it is gone."""
    return file.stat().st_size / 1e6 if file.exists() else 0.0


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text().splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no output"
