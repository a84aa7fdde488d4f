"""What is looked at while it goes on: how far readers are behind, memory, files."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from anabranch.core.errors import AnabranchError
from anabranch.core.settings import Settings
from anabranch.ingest.kafka.admin import end_offsets
from anabranch.lake import latest_commit, open_table
from anabranch.lake.layout import EVERY, VersionRef, existing_tables
from anabranch.operate.runtime import lifecycle, process_registry

TOPIC = "flights"
ENGINES = ("landing", "speed")


@dataclass(frozen=True, slots=True)
class Sample:
    """``behind``: records of the log that readers of the view don't see yet; None while nobody can say. ``named``: data
    files that the tables' newest versions name, of so many ``partitions``. ``files`` and ``bytes``: all below the home.
    ``processes``: the memory of each process of the parts with an engine, which ``memory`` adds up.
    """

    seconds: float
    behind: int | None
    memory: dict[str, int]
    named: int
    partitions: int
    files: int
    bytes: int
    processes: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def merged(self) -> float:
        """Data files for each partition: history goes by at twenty days a minute, and every day is a partition more."""
        return self.named / max(self.partitions, 1)


def look(settings: Settings, view: str, seconds: float) -> Sample:
    files, size = _disk(settings.home)
    processes = {part: _processes(settings, part) for part in ENGINES}
    memory = {part.name: part.memory_bytes for part in lifecycle.status(settings)}
    memory |= {part: sum(each.values()) for part, each in processes.items()}
    return Sample(seconds, behind(settings, view), memory, *_named(settings), files, size, processes)


def _processes(settings: Settings, part: str) -> dict[str, int]:
    """Those of a part, by name and pid: an engine beside its successor isn't one that has grown."""
    found, record = dict[str, int](), process_registry.read(settings).get(part)
    for process in process_registry.family(record) if record else ():
        with contextlib.suppress(psutil.NoSuchProcess):
            found[f"{process.name()} {process.pid}"] = int(process.memory_full_info().pss)
    return found


def behind(settings: Settings, view: str) -> int | None:
    """Of version 1, the live half."""
    try:
        return sum(end_offsets(settings, TOPIC).values()) - covered(VersionRef(settings, view, 1).speed_table, TOPIC)
    except AnabranchError:  # the broker was killed
        return None


def covered(uri: str, topic: str) -> int:
    """Records of the topic that the newest version of a table covers."""
    committed = latest_commit(uri)
    position = committed.note.cut.positions.get(topic) if committed else None
    return sum(position.offsets.values()) if position else 0


def _named(settings: Settings) -> tuple[int, int]:
    tables = (open_table(place.uri) for place in existing_tables(settings, *EVERY))
    named = [uri for table in tables if table is not None for uri in table.file_uris()]
    return len(named), len({uri.rpartition("/")[0] for uri in named})


def _disk(home: Path) -> tuple[int, int]:
    files = size = 0
    for folder, _, names in os.walk(home):
        for name in names:
            try:
                size += os.lstat(f"{folder}/{name}").st_size
                files += 1
            except FileNotFoundError:  # gone since
                continue
    return files, size


def peak(samples: Sequence[Sample], of: str) -> float:
    """The most memory of a part, in bytes."""
    return float(max((sample.memory.get(of, 0) for sample in samples), default=0))


def halves(samples: Sequence[Sample]) -> tuple[Sequence[Sample], Sequence[Sample]]:
    """What was seen after the first fifth, which is the start, in two halves."""
    steady = samples[len(samples) // 5 :]
    return steady[: len(steady) // 2], steady[len(steady) // 2 :]
