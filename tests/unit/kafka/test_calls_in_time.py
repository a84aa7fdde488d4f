"""A call to the broker keeps to its time, also where librdkafka doesn't: it waits by the machine's clock."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from anabranch.core.errors import TryAgain
from anabranch.core.settings import Settings
from anabranch.ingest.kafka import admin

pytestmark = pytest.mark.unit


class Late(admin.Admin):
    """Asked for topics, or for anything, it never answers (until the test has ended)."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.ended = threading.Event()

    def list_topics(self, *_: Any, **__: Any) -> Any:
        self.ended.wait(60)
        return super().list_topics(timeout=0.1)

    def describe_configs(self, *resources: Any, **_: Any) -> Any:
        return {resource: Future[Any]() for resource in resources[0]}


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(admin, "REACH_SECONDS", (0.05, 0.1))
    monkeypatch.setattr(admin, "_SPARE_SECONDS", 0.1)
    monkeypatch.setattr(admin, "_CALL_SECONDS", 0.1)
    return Settings(home=tmp_path, bootstrap_servers="127.0.0.1:1")


@pytest.fixture
def late(settings: Settings) -> Iterator[Late]:
    made = Late(settings)
    yield made
    made.ended.set()


def test_the_topics(settings: Settings, late: Late) -> None:
    begun = time.monotonic()
    with pytest.raises(TryAgain, match="no answer within 0") as raised:
        admin.existing_topics(settings, late)
    assert raised.value.code == "BROKER_UNREACHABLE"
    assert time.monotonic() - begun < 5


def test_what_comes_as_a_promise(settings: Settings, late: Late) -> None:
    with pytest.raises(TryAgain) as raised:
        admin.topic_settings(settings, "flights", late)
    assert raised.value.code == "BROKER_UNREACHABLE"
