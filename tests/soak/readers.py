"""Readers who look on while a migration leads them: a name gets what its route says, and never an older cut."""

from __future__ import annotations

import threading
from collections import Counter
from types import TracebackType
from typing import Self

from anabranch.core.errors import AnabranchError
from anabranch.core.settings import Settings
from anabranch.lake import Cut
from anabranch.serve import read

NAMES = tuple(f"dashboard-{n}" for n in range(20))
_PAUSE = 0.5


class Readers:
    """A context manager: one of twenty names reads every half a second."""

    def __init__(self, settings: Settings, view: str) -> None:
        self._settings, self._view = settings, view
        self._cuts: dict[str, Cut] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="readers", daemon=True)
        self.reads: Counter[int] = Counter()
        """By version."""
        self.wrong: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()

    def everybody(self) -> dict[str, int]:
        """The version that each name gets now."""
        return {name: read(self._view, settings=self._settings, reader=name).version for name in NAMES}

    def __str__(self) -> str:
        told = ", ".join(f"{count:,} of v{version}" for version, count in sorted(self.reads.items()))
        return f"{len(NAMES)} readers looked on: {told or 'no reads'}"

    def _poll(self) -> None:
        turn = 0
        while not self._stop.wait(_PAUSE):
            self._read(NAMES[turn % len(NAMES)])
            turn += 1

    def _read(self, name: str) -> None:
        try:
            reading = read(self._view, settings=self._settings, reader=name)
            rows = reading.to_arrow().num_rows
        except AnabranchError as error:
            self.wrong.append(f"{name} could not read: {error.what}")
            return
        before = self._cuts.get(name)
        if not rows:
            self.wrong.append(f"{name} saw an empty v{reading.version}")
        if before is not None and not reading.cut.covers(before) and reading.behind is None:
            self.wrong.append(f"{name} went back from {before} to {reading.cut}, and was not told")
        self._cuts[name] = reading.cut if before is None else reading.cut.joined(before)
        self.reads[reading.version] += 1
