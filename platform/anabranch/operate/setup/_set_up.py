"""Resolves the JARs, then writes the class archives; each only if it is missing."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from anabranch.core.errors import TryAgain
from anabranch.core.settings import Settings
from anabranch.operate.setup.resolve_jars import STAMP, stamp

_FOLDER = Path(__file__).parent
TELL_SECONDS = 5.0
"""How often a step that takes long says so."""
_LISTS = {"spark": (), "kafka": ("--transitive",)}


def set_up(settings: Settings, tell: Callable[[str], None] = lambda _: None) -> None:
    """Resolves what is missing. ``tell`` is called before each step, every few seconds while it runs, and with its size
    and time when it has ended. Raises TryAgain JARS_UNRESOLVED. Safe to kill and repeat: each folder appears
    atomically."""
    settings.jars.mkdir(parents=True, exist_ok=True)
    resolved = {name: _resolve(settings, name, options, tell) for name, options in _LISTS.items()}
    from anabranch.core.engine.spark import class_archive
    from anabranch.operate.runtime.kafka_server import broker_archive

    archives = {"spark": class_archive(settings), "kafka": broker_archive(settings)}
    for name in filter(resolved.get, archives):
        archives[name].unlink(missing_ok=True)  # of other JARs
    for former in set(settings.jars.glob("*.jsa")) - set(archives.values()):
        former.unlink()
    if not all(archive.exists() for archive in archives.values()):
        tell("archiving the classes of engine and broker (a minute, 250 MB; without it both start more slowly)")
        log, began = settings.jars / "archive.log", time.monotonic()
        program = [sys.executable, "-m", "anabranch.operate.setup._archive_classes"]
        given = {**os.environ, "ANABRANCH_JARS": str(settings.jars)}
        if _run(program, log, tell, env=given):
            tell(f"a class archive is missing: see {log}")
        else:
            tell(f"  {' and '.join(map(_megabytes, archives.values()))} in {time.monotonic() - began:.0f} s")


def _resolve(settings: Settings, name: str, options: tuple[str, ...], tell: Callable[[str], None]) -> bool:
    """Resolves one list. Returns whether anything had to be resolved."""
    listing, folder = _FOLDER / f"{name}.jars.lock", settings.jars / name
    made = folder / STAMP
    if made.exists() and made.read_text() == stamp(listing):
        return False
    tell(f"resolving the JARs of {name.capitalize()} from Maven into {folder}")
    log, began, ivy = settings.jars / f"{name}.log", time.monotonic(), settings.jars / "ivy"
    program = [sys.executable, str(_FOLDER / "resolve_jars.py"), str(listing), str(folder), *options]
    if _run(program, log, tell, lambda: f", {_megabytes(ivy)} of JARs so far"):
        raise TryAgain(
            "JARS_UNRESOLVED",
            f"the JARs of {name.capitalize()} couldn't be resolved: {_last_line(log)}",
            state="JARs that were resolved before are kept; nothing else has changed",
            next_step=f"see {log}; check the network and Ivy's settings, then: anabranch setup",
        )
    jars = len(list(folder.glob("*.jar")))
    tell(f"  {jars} JARs, {_megabytes(folder)}, in {time.monotonic() - began:.0f} s")
    return True


def _run(
    program: Sequence[str],
    log: Path,
    tell: Callable[[str], None],
    measured: Callable[[], str] = lambda: "",
    env: Mapping[str, str] | None = None,
) -> int:
    """Runs a program with its output in ``log``, and returns its exit code. Tells every few seconds how long it has
    run, and what was ``measured``."""
    began = time.monotonic()
    with log.open("w") as output, subprocess.Popen(program, env=env, stdout=output, stderr=output) as process:
        try:
            while True:
                try:
                    return process.wait(TELL_SECONDS)
                except subprocess.TimeoutExpired:
                    tell(f"  {time.monotonic() - began:.0f} s{measured()}")
        except BaseException:  # Ctrl-C, too: it must not go on alone
            process.kill()
            raise


def _megabytes(path: Path) -> str:
    files = path.rglob("*.jar") if path.is_dir() else [path]
    return f"{sum(file.stat().st_size for file in files if file.exists()) / 1e6:,.0f} MB"


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text().splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no output"
