"""The declaration of a view version: a pure function over events, and what the platform needs to run it in both paths;
and the error for one that is refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from inspect import signature
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, get_args

from anabranch.contracts.model.contract import EVENT_TYPE
from anabranch.core.errors import BadDefinition
from anabranch.core.settings import SAFE_NAME

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PARTITION_DATE: Final = "partition_date"
"""The Delta partition column of both halves of a view: the day of ``partition_by``. Readers don't see it."""
CHANGED: Final = "_epoch"
"""A column of the speed half: the newest epoch covered by the micro-batch that last changed this row. A view over
several topics has one column per topic: ``_epoch_<topic>``."""
EMPTIED: Final = "emptied"
"""A key in the commit metadata of a speed table: the partitions that lost their last row, each with the epochs (by
topic) since which it is empty."""
ENVELOPE: Final = ("event_time", "event_id", "source", "subject", "log_partition", "log_offset")
"""Columns that every input of a view has in addition to the fields of its event type."""

Refresh = Literal["state", "partitions"]
"""How the speed half is updated: by Spark's state, or by recomputing the partitions that new events affect (the whole
table for a kappa view)."""

WATERMARK: Final = "watermark"
"""An extra column of every input of a view that declares ``closes``: the topic's watermark at the cut."""


def changed_columns(topics: Collection[str]) -> dict[str, str]:
    """Returns the name of the epoch column for each topic."""
    return {topic: CHANGED if len(topics) == 1 else f"{CHANGED}_{topic}" for topic in sorted(topics)}


def is_changed(column: str) -> bool:
    """Whether the column is one of ``changed_columns``."""
    return column == CHANGED or column.startswith(f"{CHANGED}_")


def is_own(column: str) -> bool:
    """Whether a column of a view's table belongs to the view, not to the platform."""
    return column != PARTITION_DATE and not is_changed(column)


COLUMN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")


@dataclass(frozen=True, slots=True)
class Origin:
    """File and line of a definition, for messages."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Definition(Protocol):
    """An author's definition that the platform can refuse: a view version, or the step between two contract
    versions."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> int: ...

    @property
    def function(self) -> Callable[..., Any]: ...

    @property
    def origin(self) -> Origin: ...


@dataclass(frozen=True, slots=True)
class View:
    """One version of a view. It is immutable: another definition needs another version.

    - ``function`` takes one DataFrame per entry of ``events``, in that order, each with the fields of the event type's
      newest contract and the ENVELOPE columns. It returns rows that ``key`` identifies.
    - ``partition_by`` names the returned timestamp or date column whose day (UTC) is the partition. None makes a kappa
      view, which keeps its state forever and also sees late events.
    - ``lookback`` and ``lookahead`` say how far outside its day a partition's rows need events.
    - ``tables`` (the last entries of ``events``) are read like a table with history: rows may need any earlier event.
    - ``refresh`` says how the speed half is updated: by Spark's state or, for what Spark can't stream, by recomputing
      the partitions that new events affect.
    - ``closes`` adds the column WATERMARK to each input, so that rows can appear when their time has passed. With
      Spark's state only a processor sees the events, each when the watermark has passed it (``closed_only``).
    """

    name: str
    version: int
    events: tuple[str, ...]
    key: tuple[str, ...]
    function: Callable[..., DataFrame] = field(hash=False, compare=False)
    partition_by: str | None = None
    lookback: timedelta = timedelta(0)
    lookahead: timedelta = timedelta(0)
    refresh: Refresh = "state"
    closes: bool = False
    tables: tuple[str, ...] = ()
    origin: Origin = field(default=Origin("<unknown>", 0), compare=False)
    fingerprint: str = ""

    def __post_init__(self) -> None:
        problem = next(filter(None, self._problems()), None)
        if problem:
            code, what, next_step = problem
            where = {"view": self.name, "version": self.version, "file": self.origin.file}
            raise BadDefinition(
                code,
                f"{self.origin}: {self.name} v{self.version}: {what}",
                state="the view was not registered; nothing was written",
                next_step=next_step,
                definition=self.origin.line,
                line=None,
                **where,
            )

    def _problems(self) -> Iterator[tuple[str, str, str] | None]:
        """Checks the declaration without its code. Yields (code, problem, next step)."""
        safe = SAFE_NAME.fullmatch(self.name) if isinstance(self.name, str) else None
        yield None if safe else ("VIEW_NAME", f"{self.name!r} isn't a valid name", "use a-z, 0-9 and _, a letter first")
        whole = isinstance(self.version, int) and not isinstance(self.version, bool) and self.version > 0
        yield None if whole else ("VIEW_NAME", f"{self.version!r} isn't a valid version", "use 1, 2, 3, ...")
        wrong = [event for event in self.events if not EVENT_TYPE.fullmatch(event)]
        if wrong or not self.events or len(set(self.events)) < len(self.events):
            yield "VIEW_EVENTS", f"events {list(self.events)}", "name each event type once, like flight.departed"
        wrong = [column for column in self.key if not COLUMN.fullmatch(column)]
        if wrong or not self.key or len(set(self.key)) < len(self.key):
            yield "VIEW_KEY", f"key {list(self.key)}", "name the columns that identify a row, each once"
        if self.partition_by is not None and self.partition_by not in self.key:
            yield "VIEW_KEY", f"{self.partition_by} isn't in the key", "add it: a row must not move to another day"
        if min(self.lookback, self.lookahead) < timedelta(0):
            yield "VIEW_DURATION", "lookback and lookahead can't be negative", "write '0 hours' or more"
        if self.kappa and (self.lookback or self.lookahead):
            yield "VIEW_DURATION", "a view without partitions sees every event", "remove lookback and lookahead"
        if self.refresh not in get_args(Refresh):
            yield "VIEW_REFRESH", f"refresh={self.refresh!r}", f"write one of {', '.join(get_args(Refresh))}"
        if self.tables and (self.kappa or self.refresh != "partitions"):
            what = "tables need a view with partitions and refresh='partitions'"
            yield "VIEW_TABLES", what, "add refresh='partitions' and partition_by; a kappa view sees all of its events"
        if self.tables and (len(self.tables) == len(self.events) or self.events[-len(self.tables) :] != self.tables):
            yield (
                "VIEW_TABLES",
                f"tables {list(self.tables)}",
                "name them after the events (at least one)",
            )
        if self.closed_only and self.kappa:
            what = "closes=True with refresh='state' needs partitions"
            yield "VIEW_REFRESH", what, "add partition_by or refresh='partitions'"
        try:
            signature(self.function).bind(*self.events)
        except TypeError:
            what = f"the function takes {signature(self.function)}, the view has {len(self.events)} event types"
            yield "VIEW_ARGUMENTS", what, "write one parameter per event type, in the order of events"

    def __call__(self, *inputs: DataFrame) -> DataFrame:
        """Calls the author's function, for example from a test."""
        return self.function(*inputs)

    @property
    def kappa(self) -> bool:
        return self.partition_by is None

    @property
    def closed_only(self) -> bool:
        """Whether the function sees an event only after the watermark has passed it, in both paths."""
        return self.closes and self.refresh == "state"

    @property
    def writer(self) -> str:
        """The prefix of this version's writers in commit metadata."""
        return f"view/{self.name}/v{self.version}"


def duration(text: str | timedelta) -> timedelta:
    """Parses ``"36 hours"``, ``"7 days"``, ``"0 hours"``. Raises ValueError for anything else."""
    if isinstance(text, timedelta):
        return text
    number, _, unit = str(text).strip().partition(" ")
    units = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}
    seconds = units.get(unit.strip().removesuffix("s"))
    if seconds is None or not re.fullmatch(r"[0-9]{1,6}", number):
        raise ValueError(f"{text!r} isn't a duration like '36 hours'")
    return timedelta(seconds=int(number) * seconds)


def names(values: str | Sequence[str]) -> tuple[str, ...]:
    return (values,) if isinstance(values, str) else tuple(values)


def definition_error(
    code: str, view: Definition, what: str, *, line: int | None = None, next_step: str = "", **fields: Any
) -> BadDefinition:
    """Message: ``spark_jobs/views/x.py:12: x v1: line 18: what``. Line 12 is the definition, 18 the call, if known."""
    where = f"line {line}: " if line else ""
    return BadDefinition(
        code,
        f"{view.origin}: {view.name} v{view.version}: {where}{what}",
        state="the view was not registered; nothing was written",
        next_step=next_step,
        view=view.name,
        version=view.version,
        file=view.origin.file,
        definition=view.origin.line,
        line=line,
        **fields,
    )
