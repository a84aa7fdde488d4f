"""Events of the sample domain in the order in which they were published, with what makes real logs hard."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import polars as pl
from anabranch_samples import nycflights
from anabranch_samples.flights import flight_events

from support.landed_sample import DECLARED, FLIGHTS, Event

FIRST = date(2013, 1, 1)
_EVE = datetime(2012, 12, 31, tzinfo=UTC)
Published = tuple[datetime, int, Event]


def flights(days: int, seed: int, *, late: float) -> list[Published]:
    """Some (a share of ``late``) hours to two days late, some departures reported twice, with another delay."""
    chance, order = random.Random(seed), list[Published]()
    for row in flight_events(FIRST, days, DECLARED).filter(topic="flights").iter_rows(named=True):
        delay = timedelta(hours=chance.randint(3, 50)) if chance.random() < late else timedelta(0)
        data = {name: _typed(value) for name, value in json.loads(row["data"]).items()}
        partition = sum(row["key"].encode()) % FLIGHTS.partitions
        event = Event(row["event_type"], row["time"], row["id"], data, partition, subject=row["key"])
        order.append((row["publish_time"] + delay, len(order), event))
        if row["event_type"] == "flight.departed" and chance.random() < 0.02:
            again = replace(event, id=f"{event.id}/corrected", data={**data, "dep_delay": chance.randint(0, 300)})
            order.append((row["publish_time"] + timedelta(hours=chance.randint(0, 40)), len(order), again))
    return _in_order(order)


def weather(days: int) -> list[Published]:
    """Observed by the hour; some come days later."""
    chance, order = random.Random(8), list[Published]()
    for row in flight_events(FIRST, days, DECLARED).filter(topic="weather").iter_rows(named=True):
        delay = timedelta(hours=chance.randint(5, 60)) if chance.random() < 0.03 else timedelta(0)
        event = Event(row["event_type"], row["time"], row["id"], json.loads(row["data"]), subject=row["key"])
        order.append((row["publish_time"] + delay, len(order), event))
    return _in_order(order)


def planes(days: int) -> list[Published]:
    """Each registered before the year began; some get other seats in these days, and some of that is told late."""
    chance, order = random.Random(9), list[Published]()
    found = pl.read_csv(nycflights.data_folder() / "planes.csv", null_values=["NA"]).sort("tailnum")
    for number, row in enumerate(found.iter_rows(named=True)):
        data = {name: row[name] for name in ("tailnum", "manufacturer", "model", "seats")}
        order.append((_EVE, number, Event("plane.registered", _EVE, f"r{number}", data)))
        if chance.random() < 0.1:
            at = _EVE + timedelta(hours=chance.randint(1, 24 * days))
            told = at + timedelta(hours=chance.choice([0, 0, 1, 30]))
            rebuilt = {**data, "seats": chance.randint(20, 300)}
            order.append((told, number, Event("plane.registered", at, f"c{number}", rebuilt)))
    return _in_order(order)


def searches(days: int) -> list[Published]:
    """Saved before the year, some changed, removed or only told of later; one that can't be read harms none."""
    chance, order = random.Random(10), list[Published]()
    for number in range(150):
        name, at = f"s{number}", _EVE + timedelta(hours=chance.choice([0, 0, chance.randint(1, 24 * days)]))
        asked = f"origin = '{chance.choice(['EWR', 'JFK', 'LGA'])}' and dep_delay > {chance.randint(30, 300)}"
        kept = {"search": name, "expression": asked if number else "origin ="}
        told = at + timedelta(hours=chance.choice([0, 0, 30]))
        order.append((told, number, Event("search.saved", at, f"{name}-1", kept)))
        later = at + timedelta(hours=chance.randint(1, 100))
        if number % 5 == 1:
            order.append((later, number, Event("search.removed", later, f"{name}-2", {"search": name})))
        if number % 5 == 2:
            changed = {**kept, "expression": f"dest in ('ATL', 'ORD') or dep_delay between {number} and 200"}
            order.append((later, number, Event("search.saved", later, f"{name}-2", changed)))
    return _in_order(order)


def sliced(published: list[Published], days: int, parts: int) -> list[list[Event]]:
    """In parts of equal time, so that the parts of several topics belong together."""
    begin, length = datetime(2013, 1, 1, tzinfo=UTC), timedelta(days=days) / parts
    found: list[list[Event]] = [[] for _ in range(parts)]
    for at, _, event in published:
        found[min(max(0, (at - begin) // length), parts - 1)].append(event)
    return found


def _in_order(published: list[Published]) -> list[Published]:
    return sorted(published, key=lambda entry: entry[:2])


def _typed(value: Any) -> Any:
    """A field of a contract as landing holds it."""
    if isinstance(value, str) and value[4:5] == "-":
        return datetime.fromisoformat(value) if "T" in value else date.fromisoformat(value)
    return value
