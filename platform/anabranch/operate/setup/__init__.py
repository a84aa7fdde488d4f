"""Installs what a project needs in addition to Python packages: the JARs of Spark and Kafka, and a class archive.

``set_up`` resolves the pinned lists ``spark.jars.lock`` and ``kafka.jars.lock`` into the folder of the setting ``jars``
(``resolve_jars``), then writes the class archive (``archive_classes``). A second call does nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from anabranch.core.errors import TryAgain
from anabranch.core.settings import Settings

__all__ = ["set_up"]

_FOLDER = Path(__file__).parent
_LISTS = {"spark": (), "kafka": ("--transitive",)}


def set_up(settings: Settings, tell: Callable[[str], None] = lambda _: None) -> None:
    """Resolves what is missing; ``tell`` is called before each step. Raises TryAgain JARS_UNRESOLVED. Safe to kill and
    repeat: each folder appears atomically."""
    settings.jars.mkdir(parents=True, exist_ok=True)
    resolved = [_resolve(settings, name, options, tell) for name, options in _LISTS.items()]
    from anabranch.core.spark import class_archive

    archive = class_archive(settings)
    if any(resolved) or not archive.exists():
        tell("archiving the engine's classes (half a minute; without the archive engines start more slowly)")
        log = settings.jars / "archive.log"
        with log.open("w") as output:
            program = [sys.executable, "-m", "anabranch.operate.setup.archive_classes"]
            given = {**os.environ, "ANABRANCH_JARS": str(settings.jars)}
            ended = subprocess.run(program, env=given, stdout=output, stderr=output)
        if ended.returncode:
            tell(f"no class archive was written: see {log}")


def _resolve(settings: Settings, name: str, options: tuple[str, ...], tell: Callable[[str], None]) -> bool:
    """Resolves one list. Returns whether anything had to be resolved."""
    listing, folder = _FOLDER / f"{name}.jars.lock", settings.jars / name
    stamp = folder / "resolved.lock"
    if stamp.exists() and stamp.read_text() == listing.read_text():
        return False
    tell(f"resolving the JARs of {name.capitalize()} from Maven into {folder}")
    log = settings.jars / f"{name}.log"
    with log.open("w") as output:
        program = [sys.executable, str(_FOLDER / "resolve_jars.py"), str(listing), str(folder), *options]
        ended = subprocess.run(program, stdout=output, stderr=output)
    if ended.returncode:
        raise TryAgain(
            "JARS_UNRESOLVED",
            f"the JARs of {name.capitalize()} couldn't be resolved: {_last_line(log)}",
            state="JARs that were resolved before are kept; nothing else has changed",
            next_step=f"see {log}; check the network and Ivy's settings, then: anabranch setup",
        )
    return True


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text().splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no output"
