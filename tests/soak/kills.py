"""Who is killed: any part of the platform or of its work, but for the supervisor, which nobody watches."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from random import Random

import psutil
from anabranch.core.settings import Settings
from anabranch.operate.runtime import process_registry
from anabranch.operate.runtime.process_registry import SUPERVISOR

ENGINES = ("rebuild.py", "replay.py")


def kill(settings: Settings, rng: Random) -> str:
    """SIGKILL to a part, drawn at random: to its first process, to all of them, or to any one. What was killed."""
    groups = dict(_groups(settings))
    name = rng.choice(sorted(groups))
    how = rng.choice(("its first process", "all its processes", "one of its processes"))
    chosen = {"its first process": groups[name][:1], "all its processes": groups[name]}
    for process in chosen.get(how, [rng.choice(groups[name])]):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    return f"{name}, {how}"


def _groups(settings: Settings) -> Iterator[tuple[str, list[psutil.Process]]]:
    for record in process_registry.read(settings).values():
        family = process_registry.family(record)
        if record.name == SUPERVISOR or record.state == "done" or not family:
            continue
        yield record.name, family
        engines = [process for process in family if _is_engine(process)]
        if record.name == "airflow-scheduler" and engines:
            yield "a task's engine", engines


def _is_engine(process: psutil.Process) -> bool:
    try:
        return any(part.endswith(ENGINES) for part in process.cmdline())
    except psutil.NoSuchProcess:
        return False
