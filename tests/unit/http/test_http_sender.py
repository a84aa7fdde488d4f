"""Records given to the broker, whose client is a stand-in; the real one is in tests/faults/test_http_ingest.py."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from anabranch.contracts.model.declarations import Declarations
from anabranch.core.settings import Settings
from anabranch.ingest.http import _sender
from anabranch.ingest.http._bodies import Prepared
from anabranch.ingest.http._sender import Busy, Refused, Sender
from confluent_kafka import KafkaError

pytestmark = pytest.mark.unit


class Broker:
    """The client of a broker that answers for no record of the topic ``stuck``, and refuses those without a key."""

    def __init__(self) -> None:
        self.waiting: list[tuple[KafkaError | None, Any]] = []

    def produce(self, topic: str, *, key: bytes | None, on_delivery: Any, **_: object) -> None:
        if topic != "stuck":
            self.waiting.append((None if key else KafkaError(KafkaError.INVALID_RECORD), on_delivery))

    def poll(self, seconds: float) -> int:
        time.sleep(seconds / 10)
        given, self.waiting = self.waiting, []
        for error, answer in given:
            answer(error, SimpleNamespace(partition=lambda: 0, offset=lambda: 1))
        return 0


def test_a_topic_that_is_stuck_holds_up_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_sender, "open_client", lambda *_, **__: Broker())
    monkeypatch.setattr(_sender, "SLOW_SECONDS", 0.2)
    monkeypatch.setattr(_sender, "_LAST_SECONDS", 0.0)
    record = [Prepared(b"k", b"{}", {})]

    async def one() -> None:
        sender = Sender(Settings(home=tmp_path), Declarations())
        sender.start()
        waiting = asyncio.create_task(sender.send("stuck", record))
        await asyncio.sleep(0.3)
        assert sender.behind, "nothing else was confirmed"
        with pytest.raises(Busy):
            await sender.send("stuck", record)
        assert await sender.send("fine", record) == [(0, 1)]
        assert not sender.behind
        with pytest.raises(Refused) as refused:
            await sender.send("fine", [*record, Prepared(None, b"{}", {}), *record])
        assert refused.value.number == 1
        waiting.cancel()
        await sender.stop()

    asyncio.run(one())
