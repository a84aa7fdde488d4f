"""Every kind of view that we show, over ten days of real flights: both paths equal at the same cut, day by day."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from anabranch.batch import publish, rebuild
from anabranch.reconcile.certify import certify
from anabranch.reconcile.staged import Staged
from anabranch.samples import nycflights
from anabranch.samples.flights import flight_events
from anabranch.settings import Settings, load_settings
from anabranch.speed.runner import catch_up
from anabranch.tables import newest
from anabranch.tables.commits import open_table
from anabranch.tables.layout import batch_table, speed_table
from anabranch.views import View
from anabranch.views.check import check
from landed import ALL_DECLARED, DECLARED, FLIGHTS, Event, Landing, gallery

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

FIRST, DAYS, EPOCHS = date(2013, 1, 1), 10, 8
REGISTRY = gallery()
VIEWS = {view.name: view for view in REGISTRY}


Published = tuple[datetime, int, Event]


def flights() -> list[Published]:
    """In the order in which they were published, some with a delay of hours to two days, some reported twice."""
    events = flight_events(FIRST, DAYS, DECLARED).filter(topic="flights")
    chance = random.Random(7)
    order = []
    for row in events.iter_rows(named=True):
        delay = timedelta(hours=chance.randint(3, 50)) if chance.random() < 0.01 else timedelta(0)
        partition = hash_of(row["key"]) % FLIGHTS.partitions
        data = {name: typed(value) for name, value in json.loads(row["data"]).items()}
        event = Event(row["event_type"], row["time"], row["id"], data, partition, subject=row["key"])
        order.append((row["publish_time"] + delay, len(order), event))
        if row["event_type"] == "flight.departed" and chance.random() < 0.02:
            again = replace(event, id=f"{event.id}/corrected", data={**data, "dep_delay": chance.randint(0, 300)})
            order.append((row["publish_time"] + timedelta(hours=chance.randint(0, 40)), len(order), again))
    return sorted(order, key=lambda entry: entry[:2])


def weather() -> list[Published]:
    """Observed by the hour; some come days later."""
    observed = flight_events(FIRST, DAYS, DECLARED).filter(topic="weather")
    chance = random.Random(8)
    order = []
    for row in observed.iter_rows(named=True):
        delay = timedelta(hours=chance.randint(5, 60)) if chance.random() < 0.03 else timedelta(0)
        event = Event(row["event_type"], row["time"], row["id"], json.loads(row["data"]), subject=row["key"])
        order.append((row["publish_time"] + delay, len(order), event))
    return sorted(order, key=lambda entry: entry[:2])


def planes() -> list[Published]:
    """Each registered before the year began; some get other seats in these days, and some of that is told late."""
    chance, start = random.Random(9), datetime(2012, 12, 31, tzinfo=UTC)
    found = pl.read_csv(nycflights.data_folder() / "planes.csv", null_values=["NA"]).sort("tailnum")
    order = []
    for number, row in enumerate(found.iter_rows(named=True)):
        data = {name: row[name] for name in ("tailnum", "manufacturer", "model", "seats")}
        order.append((start, number, Event("plane.registered", start, f"r{number}", data)))
        if chance.random() < 0.1:
            at = start + timedelta(hours=chance.randint(1, 24 * DAYS))
            told = at + timedelta(hours=chance.choice([0, 0, 1, 30]))
            rebuilt = {**data, "seats": chance.randint(20, 300)}
            order.append((told, number, Event("plane.registered", at, f"c{number}", rebuilt)))
    return sorted(order, key=lambda entry: entry[:2])


def searches() -> list[Published]:
    """Saved before the year, some changed, removed or only told of later; one that can't be read harms none."""
    chance, start = random.Random(10), datetime(2012, 12, 31, tzinfo=UTC)
    order = []
    for number in range(150):
        name, at = f"s{number}", start + timedelta(hours=chance.choice([0, 0, chance.randint(1, 24 * DAYS)]))
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
    return sorted(order, key=lambda entry: entry[:2])


def hash_of(key: str) -> int:
    return sum(key.encode())


def typed(value: Any) -> Any:
    """A field of a contract as landing holds it."""
    if isinstance(value, str) and value[4:5] == "-":
        return datetime.fromisoformat(value) if "T" in value else date.fromisoformat(value)
    return value


@dataclass(frozen=True)
class Flown:
    settings: Settings
    days: list[date]
    late: dict[str, int]


@pytest.fixture(scope="module")
def flown(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Flown:
    """Landed in eight epochs; every stream has run over all but three of them, then over all."""
    settings = load_settings(home=Path(tmp_path_factory.mktemp("gallery")), shuffle_partitions=2)
    landings = {name: Landing(settings, topic) for name, topic in ALL_DECLARED.topics.items()}
    events = {"flights": flights(), "weather": weather(), "planes": planes(), "searches": searches()}
    for part in (slice(0, EPOCHS - 3), slice(EPOCHS - 3, EPOCHS)):
        for topic, landing in landings.items():
            landing.land(*sliced(events[topic])[part])
        for view in VIEWS.values():
            catch_up(spark, settings, view, REGISTRY.topic(view))
    days = sorted({row["event_date"] for row in landings["flights"].rows})
    late = {topic: sum(bool(row["late"]) for row in landing.rows) for topic, landing in landings.items()}
    return Flown(settings, days, late)


def sliced(published: list[Published]) -> list[list[Event]]:
    """In eight parts of equal time, whatever the topic."""
    begin, length = datetime(2013, 1, 1, tzinfo=UTC), timedelta(days=DAYS) / EPOCHS
    parts: list[list[Event]] = [[] for _ in range(EPOCHS)]
    for at, _, event in published:
        parts[min(max(0, (at - begin) // length), EPOCHS - 1)].append(event)
    return parts


def test_the_sample_has_what_makes_it_hard(flown: Flown) -> None:
    assert flown.late["flights"] > 100
    assert min(flown.late[name] for name in ("weather", "planes", "searches")) > 5
    assert len(flown.days) == DAYS + 1


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_both_paths_agree(spark: SparkSession, flown: Flown, view: View) -> None:
    check(view, spark, ALL_DECLARED)
    topics = REGISTRY.topic(view)
    if view.kappa:
        (whole,) = certify(spark, flown.settings, view, topics, [])
        assert whole.equal
        assert whole.speed.rows > 3_000
        return
    build = rebuild(spark, flown.settings, view, topics, flown.days, "gallery")
    staged = Staged.of(flown.settings, build)
    found = certify(spark, flown.settings, view, topics, flown.days, staged, run="gallery")

    assert [c.partition for c in found if not c.equal] == []
    assert {c.method for c in found} >= {"recomputed"}
    committed = newest(speed_table(flown.settings, view.name, view.version))
    assert committed is not None
    assert {position.epoch for position in committed.note.cut.positions.values()} == {EPOCHS}
    assert sum(c.speed.rows for c in found) > 0
    publish(flown.settings, view, build, flown.days)
    table = open_table(batch_table(flown.settings, view.name, view.version))
    assert table is not None
    keys = table.to_pyarrow_table(columns=list(view.key))
    assert keys.group_by(list(view.key)).aggregate([]).num_rows == keys.num_rows
