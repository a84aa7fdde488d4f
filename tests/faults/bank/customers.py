"""Sends accounts and transfers at a steady rate. Some events are late, some duplicates, some break their contract."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from anabranch.contracts import Event
from anabranch.contracts.model.declarations import Declarations
from anabranch.core.settings import Settings
from anabranch.ingest.kafka import Producer
from confluent_kafka import KafkaError

TOPIC = "bank"
BEGIN = datetime(2020, 1, 1, tzinfo=UTC)
RATE = 30
"""Events a second."""
_TICK = 0.1
_ACCOUNTS = 20
"""Opened before the first transfer."""
_OPENED, _LATE, _TWICE, _WRONG = 0.02, 0.04, 0.02, 0.02


class Customers:
    """``pace``: how many hours of event time pass in a second."""

    def __init__(self, settings: Settings, declared: Declarations, pace: float) -> None:
        self._settings, self._declared, self._pace, self._chance = settings, declared, pace, Random(7)
        self._numbers = iter(range(10**9))
        self.accounts = 0
        self.sent: list[str] = []
        """The id of each valid event, once."""
        self.failed: list[object] = []

    def send(self, stop: threading.Event) -> None:
        """Send until ``stop``. Everything is in the log when it returns."""
        try:
            with Producer(self._settings, self._declared) as producer:
                started = time.monotonic()
                while not stop.wait(_TICK):
                    now = BEGIN + timedelta(hours=self._pace * (time.monotonic() - started))
                    for event in self._events(now):
                        producer.send(event)
                        if self._chance.random() < _TWICE:
                            producer.send(event)
                        if self._chance.random() < _WRONG:
                            producer.send_raw(TOPIC, b"wrong", _wrong(event), self._told)
                    producer.poll(0)
        except Exception as error:
            self.failed.append(error)

    def _told(self, error: KafkaError | None, _: object) -> None:
        if error is not None:
            self.failed.append(error)

    def _events(self, now: datetime) -> Iterator[Event]:
        for _ in range(round(RATE * _TICK)):
            if self.accounts < _ACCOUNTS or self._chance.random() < _OPENED:
                yield self._event("account.opened", now, {"account": self.accounts, "balance": self._cents()})
                self.accounts += 1
                continue
            giver, taker = self._chance.sample(range(self.accounts), 2)
            told = timedelta(minutes=self._chance.randint(0, 60))
            if self._chance.random() < _LATE:
                told = timedelta(hours=self._chance.randint(4, 40))
            at = max(BEGIN, now - told)
            yield self._event("transfer.made", at, {"from": giver, "to": taker, "amount": self._cents()})

    def _event(self, kind: str, at: datetime, data: dict[str, Any]) -> Event:
        contract = self._declared.topic(TOPIC).newest(kind)
        event_id = f"{kind}-{next(self._numbers)}"
        self.sent.append(event_id)
        subject = str(data.get("account", data.get("from")))
        return Event(event_id, "/bank", kind, subject, at, data, contract.uri)

    def _cents(self) -> int:
        return self._chance.randint(1, 100_000)


def _wrong(event: Event) -> bytes:
    """The event under another id, with an amount that its contract forbids: it must not be counted."""
    said = json.loads(event.to_json())
    data = {**said["data"], **dict.fromkeys({"balance", "amount"} & said["data"].keys(), -1)}
    return json.dumps({**said, "id": f"{said['id']}-wrong", "data": data}).encode()
