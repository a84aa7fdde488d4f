"""Saved searches as people would save them, over real flights: most name a route, an aircraft or a flight."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
from anabranch_samples import nycflights

from benchmarks.world import FIRST, SEED

FIELDS = ("carrier", "flight", "tailnum", "origin", "dest", "dep_delay", "flight_date")
MIX: Mapping[str, int] = {
    "route": 30,
    "destination": 12,
    "aircraft": 15,
    "flight": 15,
    "one of some": 8,
    "or": 8,
    "range": 5,
    "prefix": 4,
    "not": 2,
    "missing": 1,
}
"""Percent of each kind."""
SAVED = datetime(2012, 12, 1, tzinfo=UTC)


def departures(days: int) -> pl.DataFrame:
    """The real departures in the order of their time, each with a position in a log of four partitions."""
    flown = nycflights.flights(FIRST, days).filter(pl.col("dep_delay").is_not_null())
    about = pl.min_horizontal("scheduled_departure", "actual_departure")
    number = pl.int_range(pl.len())
    return (
        flown.select(about.alias("event_time"), *FIELDS)
        .sort("event_time", "carrier", "flight", "origin")
        .with_columns((number % 4).cast(pl.Int32).alias("log_partition"), (number // 4).alias("log_offset"))
    )


def history(flights: pl.DataFrame, count: int) -> pl.DataFrame:
    """``count`` searches that count, and before that others: a twentieth was changed, a twentieth removed again."""
    chance = random.Random(SEED)
    values = {field: sorted(flights[field].drop_nulls().unique().to_list()) for field in FIELDS}
    routes = flights.select("origin", "dest", "carrier", "flight", "tailnum").unique().drop_nulls().sort(pl.all())
    kinds = [kind for kind, share in MIX.items() for _ in range(share)]
    makers = _makers(chance, values, routes.rows())
    events: list[tuple[str, str | None]] = []
    for number in range(count):
        name, text = f"s{number:05}", makers[chance.choice(kinds)]()
        if chance.random() < 0.05:
            events.append((name, makers["range"]()))
        events.append((name, text))
        if chance.random() < 0.05:
            events += [(f"gone{number:05}", text), (f"gone{number:05}", None)]
    rows = [
        {"search": search, "expression": text, "event_time": SAVED + timedelta(seconds=at), "log_offset": at}
        for at, (search, text) in enumerate(events)
    ]
    return pl.DataFrame(rows).with_columns(pl.lit(0).cast(pl.Int32).alias("log_partition"))


def current(versions: pl.DataFrame) -> list[tuple[str, str]]:
    """What is left of a history: the newest expression of each search that isn't removed."""
    newest = dict(versions.sort("log_offset").select("search", "expression").rows())
    return [(search, text) for search, text in newest.items() if text is not None]


def _makers(
    chance: random.Random, values: Mapping[str, Sequence[Any]], routes: Sequence[tuple[Any, ...]]
) -> dict[str, Callable[[], str]]:
    """For each kind of MIX what makes one more of it."""

    def delay() -> int:
        return chance.choice((15, 30, 45, 60, 90, 120, 180))

    def one_of(field: str, most: int) -> str:
        chosen = chance.sample(values[field], chance.randint(2, most))
        return f"{field} in ({', '.join(repr(value) for value in chosen)})"

    def route() -> str:
        origin, dest, carrier, *_ = chance.choice(routes)
        more = chance.choice((f" and carrier = '{carrier}'", "", f" and flight_date = '{chance.choice(days)}'"))
        return f"origin = '{origin}' and dest = '{dest}' and dep_delay > {delay()}{more}"

    def flight() -> str:
        _, _, carrier, number, _ = chance.choice(routes)
        return f"carrier = '{carrier}' and flight = {number}"

    def long_range() -> str:
        low, first = chance.randint(240, 900), chance.randint(1, 8000)
        return chance.choice(
            (
                f"dep_delay between {low} and {low + 20}",
                f"dep_delay > {low} and flight between {first} and {first + 99}",
            )
        )

    days = values["flight_date"]
    return {
        "route": route,
        "destination": lambda: f"dest = '{chance.choice(values['dest'])}' and dep_delay >= {delay() + 60}",
        "aircraft": lambda: f"tailnum = '{chance.choice(values['tailnum'])}' and dep_delay > {delay()}",
        "flight": flight,
        "one of some": lambda: f"{one_of('dest', 6)} and {one_of('carrier', 3)} and dep_delay > {delay()}",
        "or": lambda: f"({route()}) or ({flight()} and dep_delay > 0)",
        "range": long_range,
        "prefix": lambda: f"tailnum like '{chance.choice(values['tailnum'])[:4]}%' and dep_delay > {delay()}",
        "not": lambda: f"not (origin = 'JFK' or dep_delay < {chance.randint(300, 900)})",
        "missing": lambda: f"tailnum is null and origin = 'LGA' and flight > {chance.randint(4000, 8000)}",
    }
