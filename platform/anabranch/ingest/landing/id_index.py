"""The index of ids: the (source, id) pairs landed within the duplicate horizon, as hashes in files next to the table.

It is only a cache: it records the version of the landing table that it was built from, and landing updates or rebuilds
it when it opens it. The cost of a lookup doesn't depend on the number of updates before.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from anabranch.ingest.landing.id_hashes import Hashes, Segment, contains, load, merge, write

FORM = "md5:1"
"""The version of the hash function and of the file format; an index of another version is rebuilt."""
LOGGER = logging.getLogger(__name__)
FAN = 8
"""How many files of similar size are merged into one."""
SMALLEST = 1_000
"""Hashes in the smallest size class; each class is FAN times larger than the one before."""
AT_ONCE = 2_000_000
"""Merges of more hashes run in a separate thread: they take 0.1 s per million."""
_MANIFEST = "index.json"


@dataclass(frozen=True, slots=True)
class Origin:
    """What an index was built from: the table's id, its version, and the batch in its newest commit's metadata."""

    table: str
    version: int
    batch: str


class IdIndex:
    """The index in one folder. One process writes it; nothing is visible before ``save``.

    ``origin`` is None for a new index, and for one that can't be read or has another format.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._segments: list[Segment] = []
        self._merging: _Merging | None = None
        self.origin: Origin | None = None
        folder.mkdir(parents=True, exist_ok=True)
        with suppress(OSError, ValueError, KeyError, TypeError):
            self._load(json.loads((folder / _MANIFEST).read_text()))
        self._sweep()

    def _load(self, said: Mapping[str, Any]) -> None:
        if said["form"] == FORM:
            days = [None if entry["day"] is None else date.fromisoformat(entry["day"]) for entry in said["files"]]
            names = [entry["name"] for entry in said["files"]]
            self._segments = [load(self._folder / name, day) for name, day in zip(names, days, strict=True)]
            self.origin = Origin(**said["origin"])

    def __len__(self) -> int:
        return sum(segment.count for segment in self._segments)

    @property
    def days(self) -> list[date]:
        """The days that it holds ids of, in order."""
        return sorted({segment.day for segment in self._segments if segment.day})

    def clear(self) -> None:
        """Drop everything; the files are deleted at the next ``save``."""
        self._segments, self._merging, self.origin = [], None, None

    def forget(self, before: date) -> None:
        """Drop whole days before ``before``."""
        self._segments = [s for s in self._segments if s.day is None or s.day >= before]

    def known(self, hashes: Hashes) -> NDArray[np.bool_]:
        """Which of ``hashes`` it holds."""
        order = np.argsort(hashes[0])
        wanted, found = hashes[:, order], np.zeros(hashes.shape[1], np.bool_)
        for segment in self._segments:
            found |= contains(segment, wanted)
        result = np.empty_like(found)
        result[order] = found
        return result

    def add(self, day: date | None, hashes: Hashes) -> None:
        """Add ``hashes`` of records that were appended on ``day``; None keeps them for ever."""
        if hashes.shape[1]:
            self._segments.append(write(self._new(), day, hashes))
            self._tidy()

    def save(self, origin: Origin) -> None:
        """Make this the index of ``origin``, durably."""
        self.origin = origin
        files = [{"name": s.path.name, "day": s.day and s.day.isoformat()} for s in self._segments]
        said = {"form": FORM, "origin": asdict(origin), "files": files}
        draft = self._folder / f"{_MANIFEST}.tmp"
        with draft.open("w") as file:
            json.dump(said, file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._folder / _MANIFEST)
        self._sweep()

    def settle(self) -> None:
        """Wait for background merges until nothing is left to merge."""
        while self._merging is not None:
            self._merging.thread.join()
            self._tidy()

    def remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _new(self) -> Path:
        return self._folder / f"{uuid4().hex}.npy"

    def _sweep(self) -> None:
        """Delete files that aren't part of the index: merged, dropped, or left by a crash."""
        kept = {segment.path for segment in self._segments}
        if self._merging is not None:
            kept |= {self._merging.target, *(segment.path for segment in self._merging.segments)}
        for path in self._folder.glob("*.npy"):
            if path not in kept:
                path.unlink()

    def _tidy(self) -> None:
        if self._merging is not None and not self._merging.thread.is_alive():
            self._replace(self._merging.segments, self._merging.merged)
            self._merging = None
        while group := self._like_sized():
            if sum(segment.count for segment in group) > AT_ONCE:
                self._merging = self._merging or _Merging(group, self._new())
                return
            self._replace(group, merge(group, self._new()))

    def _like_sized(self) -> list[Segment]:
        """The FAN smallest files of one day and of similar size; two are enough once their day is over."""
        busy = {segment.path for segment in self._merging.segments} if self._merging else set()
        growing = {None, *self.days[-1:]}
        groups: dict[tuple[int, date | None], list[Segment]] = {}
        for segment in self._segments:
            if segment.path not in busy:
                groups.setdefault((_size_class(segment.count), segment.day), []).append(segment)
        ready = {k: group for k, group in groups.items() if len(group) >= (FAN if k[1] in growing else 2)}
        return ready[min(ready, key=lambda k: k[0])][:FAN] if ready else []

    def _replace(self, old: Sequence[Segment], merged: Segment | None) -> None:
        # If the day was dropped meanwhile, or the merge failed, the merged file isn't used.
        paths = {segment.path for segment in old}
        if merged is not None and paths <= {segment.path for segment in self._segments}:
            self._segments = [merged, *(s for s in self._segments if s.path not in paths)]


class _Merging:
    """A merge in a background thread; ``merged`` is set when the thread has ended, unless it failed."""

    def __init__(self, segments: Sequence[Segment], target: Path) -> None:
        self.segments, self.target = segments, target
        self.merged: Segment | None = None
        self.thread = threading.Thread(target=self._run, name="merge of ids", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.merged = merge(self.segments, self.target)
        except OSError:
            LOGGER.exception("ids could not be merged into %s; the merge is tried again", self.target)


def _size_class(count: int) -> int:
    size = 0
    while count >= SMALLEST * FAN ** (size + 1):
        size += 1
    return size
