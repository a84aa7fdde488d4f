"""The demo's readers: twenty names that take turns, one read every tenth of a second, during all changes."""

from __future__ import annotations

import threading
import time
from collections import Counter
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc
from anabranch.core.errors import AnabranchError
from anabranch.core.settings import Settings
from anabranch.lake.cut import Cut
from anabranch.serve import read

NAMES = tuple(f"dashboard-{n}" for n in range(20))


class Readers:
    """Reads in a thread for the length of the ``with`` block, one name after the other, every ``pause`` seconds. No
    read may fail, and none may show an older cut than its reader has seen without saying so."""

    pause = 0.1

    def __init__(self, settings: Settings, view: str) -> None:
        self._settings = settings
        self._view = view
        self._cuts: dict[str, Cut] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="readers", daemon=True)
        self.reads: Counter[int] = Counter()
        """Number of reads, by version."""
        self.last: dict[int, float] = {}
        """Time of the last read by version, in Unix seconds."""
        self.wrong: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()

    def _poll(self) -> None:
        turn = 0
        while not self._stop.wait(self.pause):
            self._read(NAMES[turn % len(NAMES)])
            turn += 1

    def _read(self, reader: str) -> None:
        try:
            reading = read(self._view, settings=self._settings, reader=reader)
            found = self._wrong_rows(reading.to_arrow())
        except AnabranchError as error:
            self.wrong.append(f"{reader}: {error}")
            return
        before = self._cuts.get(reader)
        if found:
            self.wrong.append(f"{reader} saw {found} in v{reading.version}")
        if before is not None and not reading.cut.covers(before) and reading.behind is None:
            self.wrong.append(f"{reader} went back from {before} to {reading.cut}")
        self._cuts[reader] = reading.cut if before is None else reading.cut.joined(before)
        self.reads[reading.version] += 1
        self.last[reading.version] = time.time()

    def _wrong_rows(self, rows: pa.Table) -> str:
        """What is wrong with the rows of a read; "" if nothing is."""
        return "" if rows.num_rows else "no rows"


class FlightReaders(Readers):
    """Every read must see all flights: fewer would be an empty or half-written table, more a mixture of versions."""

    def __init__(self, settings: Settings, view: str) -> None:
        super().__init__(settings, view)
        self._flights = self._total(read(view, settings=settings).to_arrow())

    def _wrong_rows(self, rows: pa.Table) -> str:
        flights = self._total(rows)
        return "" if flights == self._flights else f"{flights:,} flights of {self._flights:,}"

    @staticmethod
    def _total(rows: pa.Table) -> int:
        return int(pc.sum(rows["flights"]).as_py() or 0)
