"""Readers of each engine record what they see; ``wrong`` compares it with what landing holds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from itertools import count
from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import anabranch
import pyarrow as pa
from anabranch.core.settings import Settings
from faults.bank.customers import TOPIC
from faults.bank.truth import Facts, Truth, facts_by_day, facts_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAMES = 4
"""Readers of each engine. A route leads some of them to the new version."""
_SPARK = "spark"
_SPARK_RESTS = 4
"""A read by Spark costs as much as many by the others: it rests for so many times as long."""


@dataclass(frozen=True, slots=True)
class Part:
    """One partition of a reading: the half that it comes from, and the epoch up to which that half has everything."""

    half: str
    epoch: int
    facts: Facts


@dataclass(frozen=True, slots=True)
class Read:
    """``at`` is the epoch of the reading's cut."""

    view: str
    version: int
    prefer: str
    engine: str
    reader: str
    at: int
    behind: bool
    parts: Mapping[date | None, Part] = field(hash=False)

    def __str__(self) -> str:
        return f"{self.view} v{self.version} ({self.prefer}) at {TOPIC}@{self.at}, by {self.reader}"


@dataclass
class Readers:
    """``rest``: seconds between two reads of an engine. ``reads`` are in the order of each reader's own."""

    settings: Settings
    spark: SparkSession
    rest: float
    reads: list[Read] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def works(self) -> Iterator[Callable[[threading.Event], None]]:
        """One for each engine, each for a thread."""
        for engine in self._engines:
            yield partial(self._poll, engine)

    @property
    def _engines(self) -> Mapping[str, Callable[[anabranch.Reading], pa.Table]]:
        return {**ENGINES, _SPARK: lambda reading: reading.to_spark(self.spark).toArrow()}

    def _poll(self, engine: str, stop: threading.Event) -> None:
        chance = Random(engine)
        rest = self.rest * (_SPARK_RESTS if engine == _SPARK else 1)
        for number in count():
            if stop.wait(rest):
                return
            view, prefer = chance.choice([("balances", "default"), ("flows", "default"), ("flows", "complete")])
            try:
                self.reads.append(self._read(view, prefer, engine, f"{engine}-{number % _NAMES}"))
            except Exception as error:
                self.failed.append(f"{time.strftime('%X')} {engine}, {view}: {type(error).__name__}: {error}")

    def _read(self, view: str, prefer: str, engine: str, reader: str) -> Read:
        reading = anabranch.read(view, settings=self.settings, reader=reader, prefer=prefer)
        rows = self._engines[engine](reading)
        at = reading.cut.epoch(TOPIC)
        found: Mapping[Any, Facts] = {None: facts_of(rows)} if view == "balances" else facts_by_day(rows)
        parts = {}
        for day in {*reading.halves, *found}:
            half = reading.halves.get(day, "none")
            epoch = reading.published[day].epoch(TOPIC) if half == "batch" else at
            parts[day] = Part(half, epoch, found.get(day, Facts()))
        behind = reading.behind is not None
        return Read(view, reading.version, prefer, engine, reader, at, behind, parts)


ENGINES: Final[Mapping[str, Callable[[anabranch.Reading], pa.Table]]] = MappingProxyType({
    "arrow": lambda reading: reading.to_arrow(),
    "polars": lambda reading: reading.to_polars().to_arrow(),
    "lazy polars": lambda reading: reading.to_polars(lazy=True).collect().to_arrow(),
    "pandas": lambda reading: pa.Table.from_pandas(reading.to_pandas(), preserve_index=False),
    "duckdb": lambda reading: reading.to_duckdb().to_arrow_table(),
})  # fmt: skip


def wrong(reads: Sequence[Read], truth: Truth) -> list[str]:
    """Each reading that differs from landing at its cut, or is older than one before it, in words."""
    found, newest = list[str](), dict[tuple[str, str], int]()
    for read in reads:
        problems = _balances(read, truth) if read.view == "balances" else _flows(read, truth)
        found += [f"{read}: {problem}" for problem in problems]
        seen = newest.get((read.view, read.reader), 0)
        if read.at < seen and not read.behind:
            found.append(f"{read}: it had seen {seen}, and the reading doesn't say so")
        newest[read.view, read.reader] = max(seen, read.at)
    return found


def _balances(read: Read, truth: Truth) -> Iterator[str]:
    facts, paid_in = read.parts[None].facts, truth.paid_in.at(read.at).total
    if facts.total != paid_in:
        yield f"there are {facts.total} cents, {paid_in} were paid in"
    if facts != truth.balances.at(read.at):
        yield f"{facts} instead of {truth.balances.at(read.at)}"


def _flows(read: Read, truth: Truth) -> Iterator[str]:
    missing = truth.days(read.at) - read.parts.keys()
    if missing:
        yield f"{sorted(missing)} are missing"
    for day, part in read.parts.items():
        assert day is not None
        where = f"{day} from {part.half} at {part.epoch}"
        if part.facts.total:
            yield f"{where}: the movements of a day add up to {part.facts.total}"
        if part.facts != (expected := _of_day(day, part, truth)):
            yield f"{where}: {part.facts} instead of {expected}"
        if read.prefer == "default":
            yield from (f"{where}: {problem}" for problem in _at_its_cut(read, day, part, truth))


def _of_day(day: date, part: Part, truth: Truth) -> Facts:
    days = truth.every if part.half == "batch" else truth.on_time
    return days[day].at(part.epoch) if day in days else Facts()


def _at_its_cut(read: Read, day: date, part: Part, truth: Truth) -> Iterator[str]:
    """The batch half has nothing after the cut of the reading, and all on-time events before it."""
    if part.epoch > read.at:
        yield f"it is newer than the reading's cut, {read.at}"
    if part.half == "batch" and day in truth.on_time:
        here, there = (truth.on_time[day].at(epoch).movements for epoch in (part.epoch, read.at))
        if here < there:
            yield f"{there - here} movements that speed knows are missing"
