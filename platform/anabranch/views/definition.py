"""What a view is: one pure function over events, and what the platform has to know to run it twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PARTITION: Final = "partition_date"
"""The Delta partition column of both halves of a view: the day of ``partition_by``. Readers don't see it."""
CHANGED: Final = "_epoch"
"""In the speed half: the newest epoch that the micro-batch which last changed this row covered."""
ENVELOPE: Final = ("event_time", "event_id", "source", "subject", "log_partition", "log_offset")
"""Columns that every input of a view has beside the fields of its event type."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a definition stands, for messages."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class View:
    """One version of a view. Immutable: another definition is another version.

    ``function`` takes one DataFrame per entry of ``events``, in that order, each with the fields of the event
    type's newest contract and the columns of ENVELOPE, and returns rows that ``key`` identifies. ``partition_by``
    names the returned timestamp or date column whose day (UTC) is the partition; None makes a kappa view, which
    keeps state for ever and sees late events too. ``lookback`` and ``lookahead`` say how far outside its day a
    partition's rows need events.
    """

    name: str
    version: int
    events: tuple[str, ...]
    key: tuple[str, ...]
    function: Callable[..., DataFrame] = field(hash=False, compare=False)
    partition_by: str | None = None
    lookback: timedelta = timedelta(0)
    lookahead: timedelta = timedelta(0)
    origin: Origin = field(default=Origin("<unknown>", 0), compare=False)
    fingerprint: str = ""

    @property
    def kappa(self) -> bool:
        return self.partition_by is None

    @property
    def writer(self) -> str:
        """The prefix of this version's writers in commit notes."""
        return f"view/{self.name}/v{self.version}"


def duration(text: str | timedelta) -> timedelta:
    """``"36 hours"``, ``"7 days"``, ``"0 hours"`` as a timedelta; ValueError for anything else."""
    if isinstance(text, timedelta):
        return text
    number, _, unit = text.strip().partition(" ")
    units = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}
    seconds = units.get(unit.strip().removesuffix("s"))
    if seconds is None or not number.isdecimal():
        raise ValueError(f"{text!r} is no duration like '36 hours'")
    return timedelta(seconds=int(number) * seconds)


def names(values: str | Sequence[str]) -> tuple[str, ...]:
    return (values,) if isinstance(values, str) else tuple(values)
