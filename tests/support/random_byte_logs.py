"""Random logs of bytes for some views: events as a proof draws them (late, twice, by wrong clocks, on the borders of
days and windows), and among them what nobody can read. A seed makes the same log in every run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Any

from anabranch.contracts import Contract
from anabranch.contracts.model.declarations import Declarations
from anabranch.contracts.model.topics import Sources
from anabranch.contracts.sending import rfc3339
from anabranch.testing import Event
from anabranch.testing._log_generator import LogGenerator
from anabranch.testing._scenario import Fault
from anabranch.testing._values import pool_key
from anabranch.views import View
from anabranch.views.function_source import read
from anabranch.views.registry import sources_of

from support.binary_records import Sent, in_headers, spoiled_in_headers
from support.naive_reader import Record
from support.spoiled_records import KINDS, written

SIZE = (14, 34)
IN_HEADERS = 0.3
"""So many of them, about, are in binary mode."""
SPOILED = 0.3
"""So many records of each log, about, are something else than events of ours."""
_FEW: Mapping[str, Sequence[Any]] = {
    "origin": ["JFK", "LGA"],
    "dest": ["ATL", "ORD", "BOS", "JFK"],
    "carrier": ["AA", "B6"],
    "flight": [1, 2, 9999],
    "tailnum": ["N1", "N22", "N333"],
    "manufacturer": ["BOEING", "AIRBUS", "", "\N{AIRPLANE}"],
    "search": ["s1", "s2", "s1 "],
    "expression": [
        "origin = 'JFK'", "dep_delay > 30 or carrier = 'B6'", "dest in ('ATL', 'ORD') and not dep_delay < 0",
        "origin =", "carrier like 'A%'", "dep_delay between 0 and 60",
    ],
    "dep_delay": [-5, 0, 31, 45, 90, 4320],
}  # fmt: skip
"""Values by the names of fields, so that what is joined finds partners."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """The records that one micro-batch of landing holds, by topic; a topic without any has no epoch. ``then``: what
    befalls the streams behind it, where they catch up with it at all."""

    records: Mapping[str, tuple[Record, ...]]
    then: Fault | None


@dataclass(frozen=True, slots=True)
class ByteLog:
    seed: str
    topics: Sources
    epochs: tuple[Epoch, ...]

    def of(self, topic: str) -> list[Record]:
        return [record for epoch in self.epochs for record in epoch.records.get(topic, ())]


def drawn(views: Sequence[View], declared: Declarations, seed: str) -> ByteLog:
    """A log of every topic that one of ``views`` reads."""
    chance = Random(seed)
    events = tuple(dict.fromkeys(name for view in views for name in view.events))
    widest = max(views, key=lambda view: view.lookback + view.lookahead)
    reader = replace(widest, events=events, tables=(), function=lambda *inputs: inputs[0])
    topics = sources_of(reader, declared)
    log = LogGenerator(reader, topics, read(widest.function), SIZE).log(_pools(topics, events, chance), chance)
    writer = _Writer(topics, log.events, chance)
    epochs = list[Epoch]()
    for step in log.steps:
        for number, epoch in enumerate(step.epochs, 1):
            records = writer.records(epoch, first=not epochs)
            epochs.append(Epoch(records, step.then if number == len(step.epochs) else None))
    return ByteLog(seed, topics, tuple(epochs))


def _pools(topics: Sources, events: Sequence[str], chance: Random) -> dict[str, list[Any]]:
    found = {}
    for name in events:
        for field, node in topics.newest(name).fields.items():
            found[pool_key(field, node)] = _some(_FEW.get(field) or _values(node), chance)
    return found


def _some(values: Sequence[Any], chance: Random) -> list[Any]:
    return chance.sample(list(values), min(len(values), chance.randint(2, 4)))


def _values(node: Mapping[str, Any]) -> list[Any]:
    if node.get("format") == "date-time":
        return [
            datetime(1, 1, 1, tzinfo=UTC),
            datetime(2013, 3, 10, 6, 59, 59, 999999, UTC),
            datetime(9999, 12, 31, tzinfo=UTC),
        ]
    if node.get("format") == "date":
        return [date(2013, 1, 1), date(2016, 2, 29)]
    if node["type"] == "string":
        return ["", "737", "it's", "e\u0301"]
    low, high = node["minimum"], node["maximum"]
    return [low, high, (low + high) // 2] if node["type"] == "integer" else [low, high, low + (high - low) / 7]


class _Writer:
    """Gives each record its bytes, its offset and the time at which the log appends it: behind all events' own, a
    second apart; now and then the log rests for longer than copies are known."""

    def __init__(self, topics: Sources, events: Sequence[Event], chance: Random) -> None:
        self._topics, self._chance = topics, chance
        self._now = max(event.time for event in events).replace(microsecond=0) + timedelta(hours=2)
        self._offsets: dict[tuple[str, int], int] = {}
        self._rests = chance.random() < 0.3

    def records(self, epoch: Sequence[Event], *, first: bool) -> dict[str, tuple[Record, ...]]:
        if self._rests and not first and self._chance.random() < 0.5:
            self._now += max(topic.duplicate_horizon for topic in self._topics.each) + timedelta(days=2)
            self._rests = False
        values = list(self._values(epoch))
        for topic in self._topics.each if first else ():  # a topic of which nothing has landed stops a rebuild
            event = Event(topic.contracts[0].name, self._now, "nothing", {"origin": "JFK"})
            values.append((topic.name, 0, self._spoiled(event, self._now)))
        found: dict[str, list[Record]] = {}
        for name, partition, (headers, value) in values:
            self._now += timedelta(seconds=1)
            offset = self._offsets.get((name, partition), 0)
            self._offsets[name, partition] = offset + 1
            key = b"key" if offset % 3 else None
            found.setdefault(name, []).append(Record(name, partition, offset, self._now, value, headers, key))
        return {name: tuple(each) for name, each in found.items()}

    def _values(self, epoch: Sequence[Event]) -> Iterator[tuple[str, int, Sent]]:
        for event in epoch:
            topic = self._topics.carrier(event.type)
            while self._chance.random() < SPOILED:
                yield topic.name, self._chance.randrange(topic.partitions), self._spoiled(event, event.time)
            value = self._spoiled(event, event.time) if event.broken else self._sound(self._body(event))
            yield topic.name, event.partition, value

    def _sound(self, body: dict[str, Any]) -> Sent:
        return in_headers(self._chance, body) if self._chance.random() < IN_HEADERS else (None, written(body))

    def _spoiled(self, event: Event, time: datetime) -> Sent:
        """Of an event that was never sent, so it is no copy of one."""
        other = replace(event, id=f"other-{self._chance.randrange(40)}", time=time)
        if self._chance.random() < IN_HEADERS:
            return spoiled_in_headers(self._chance, self._body(other))
        return None, self._chance.choice(KINDS)(self._chance, self._body(other))

    def _body(self, event: Event) -> dict[str, Any]:
        chance, contract = self._chance, self._topics.newest(event.type)
        body: dict[str, Any] = {"specversion": "1.0", "id": event.id, "source": event.source, "type": event.type}
        body |= {"subject": event.subject or "nobody", "time": rfc3339(event.time + event.clock)}
        body |= {} if chance.random() < 0.1 else {"dataschema": contract.uri}
        if event.clock:
            body["senttime"] = rfc3339(event.time + event.clock)
            # One that nobody has received before the log did is of the log's own time.
            body |= {} if chance.random() < 0.03 else {"receivedtime": rfc3339(event.time)}
        return body | {"data": dict(self._data(event, contract))}

    def _data(self, event: Event, contract: Contract) -> Iterator[tuple[str, Any]]:
        for name in contract.fields:
            value = event.data.get(name)
            if name == "flight_date" and self._chance.random() < 0.7:
                value = (event.time + timedelta(days=self._chance.choice([-1, 0, 0, 1]))).date()
            if value is not None or self._chance.random() < 0.5:
                yield name, rfc3339(value) if isinstance(value, datetime) else str(value) if _is_date(value) else value


def _is_date(value: Any) -> bool:
    return isinstance(value, date)
