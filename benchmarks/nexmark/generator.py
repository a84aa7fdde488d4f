"""The benchmark's persons, auctions and bids, from a seed, in the order in which they are published.

What makes it Nexmark is kept: of 50 events one is a person, three are auctions and 46 are bids, by the event's number
alone; an event's time is its number times a gap; half of the bids go to the one auction that is hot, three quarters
come from the one bidder that is, three quarters of the auctions from the one seller; the others pick among the last
100 auctions and 1,000 persons, and some of the next ten that aren't there yet; prices are spread over six powers of
ten. Two things are ours. The gap is 4.32 s and not 0.1 ms: 20,000 events make a day, so that an auction lasts two
hours on average and four at most, and views by day have several days. And more goes wrong on the way: see Workload.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

import numpy as np
import polars as pl
from anabranch.contracts.model.declarations import Declarations
from anabranch.core.errors import BadInput
from anabranch_samples.flights import COLUMNS

from benchmarks.nexmark.texts import Numbers, Random
from benchmarks.nexmark.things import GAP, LONGEST_AUCTION, auctions, bids, persons

PERSONS, AUCTIONS, BIDS = 1, 3, 46
IN_ALL: Final = PERSONS + AUCTIONS + BIDS


@dataclass(frozen=True, slots=True)
class Workload:
    """``events`` of them, from ``begin`` on.

    Each group of ``group`` events is published when its last one has happened, in another order; a share ``delayed``
    comes up to half an hour later, which is on time; a share ``late`` half a day to two days later.
    """

    events: int
    seed: int = 2015
    group: int = 10
    delayed: float = 0.1
    late: float = 0.003
    begin: datetime = datetime(2015, 7, 15, tzinfo=UTC)

    def __post_init__(self) -> None:
        if min(self.events, self.group) < 1 or self.seed < 0 or min(self.delayed, self.late) < 0:
            raise _refused(self, "there is at least one event, in groups of at least one; nothing is negative")
        if not self.delayed + self.late <= 1:
            raise _refused(self, "an event is either delayed or late: both shares together are 1 at most")

    @property
    def days(self) -> list[date]:
        """The UTC days that any query can have a row on: windows begin an hour earlier, auctions end hours later."""
        first, last = (
            (self.begin - timedelta(hours=1)).date(),
            (self.begin + self.events * GAP + LONGEST_AUCTION).date(),
        )
        return [first + timedelta(days=n) for n in range((last - first).days + 1)]


def _refused(workload: Workload, what: str) -> BadInput:
    return BadInput("WORKLOAD", f"{workload}: {what}", state="nothing was made", next_step="give other numbers")


def nexmark_events(workload: Workload, declarations: Declarations) -> pl.DataFrame:
    """All events in the form that ``samples.publishing.publish`` takes, in publish order."""
    random = np.random.default_rng(workload.seed)
    number = np.arange(workload.events)
    place = number % IN_ALL
    frame = pl.DataFrame(
        {"number": number, "time": _times(workload, number), "publish_time": _published(workload, random)}
    )
    parts = (
        ("nexmark.person", persons, place < PERSONS),
        ("nexmark.auction", auctions, (place >= PERSONS) & (place < PERSONS + AUCTIONS)),
        ("nexmark.bid", bids, place >= PERSONS + AUCTIONS),
    )
    made = []
    for kind, make, chosen in parts:
        facts = frame.filter(pl.Series(chosen))
        made.append(_enveloped(make(random, facts), kind, declarations))
    mixed = pl.col("number") % workload.group * 953 % workload.group
    events = pl.concat(made).sort("publish_time", pl.col("number") // workload.group, mixed, "number")
    return events.select(*COLUMNS)


def _times(workload: Workload, number: Numbers) -> pl.Series:
    first = int(workload.begin.timestamp()) * 1_000_000
    return pl.Series(first + number * (GAP // timedelta(microseconds=1))).cast(pl.Datetime("us", "UTC"))


def _published(workload: Workload, random: Random) -> pl.Series:
    number = np.arange(workload.events)
    group_ends = np.minimum((number // workload.group + 1) * workload.group, workload.events) - 1
    luck = random.random(workload.events)
    delay = np.where(luck < workload.delayed, random.integers(1, 1_800, workload.events), 0)
    late = random.integers(43_200, 172_800, workload.events)
    delay = np.where(luck >= 1 - workload.late, late, delay)
    return _times(workload, group_ends) + pl.Series(delay * 1_000_000).cast(pl.Duration("us"))


def _enveloped(facts: pl.DataFrame, kind: str, declarations: Declarations) -> pl.DataFrame:
    """``facts`` have number, time, publish_time, identity and data; the rest is the same for all of a kind."""
    topic = declarations.topic_of(kind)
    columns = {
        "topic": pl.lit(topic.name),
        "key": pl.col("identity"),
        "event_type": pl.lit(kind),
        "publish_time": pl.col("publish_time"),
        "id": pl.col("identity"),
        "source": pl.lit("/nexmark"),
        "time": pl.col("time"),
        "senttime": pl.lit(None),
        "receivedtime": pl.col("publish_time"),
        "dataschema": pl.lit(topic.newest(kind).uri),
        "data": pl.col("data"),
        "fault": pl.lit(None),
        "value": pl.lit(None),
    }
    cast = (expression.cast(COLUMNS[name]).alias(name) for name, expression in columns.items())
    return facts.select("number", *cast)
