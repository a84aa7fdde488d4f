"""A call to the broker keeps to its time, also where librdkafka doesn't: it waits by the machine's clock."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from anabranch.core.errors import TryAgain
from anabranch.core.settings import Settings
from anabranch.ingest.kafka import admin
from anabranch.ingest.kafka._destroying import DestroyedBeside
from support.processes import eventually

pytestmark = pytest.mark.unit


ENDING = """
import threading, time
from anabranch.ingest.kafka._destroying import DestroyedBeside
class Threads:
    def __del__(self):
        time.sleep(0.3)
        print("destroyed by", threading.current_thread().name, end="")
class Client:
    def __init__(self, threads): self.threads = threads
class Destroyed(DestroyedBeside, Client): pass
Destroyed(Threads())
"""


class Client:
    def __init__(self, threads: object) -> None:
        self.threads = threads


class Destroyed(DestroyedBeside, Client):
    pass


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


def test_who_lets_go_of_a_client_does_not_wait_for_it() -> None:
    ended, seen = threading.Event(), list[str]()

    class Threads:
        def __del__(self) -> None:
            seen.append(threading.current_thread().name)
            ended.wait(30)
            seen.append("destroyed")

    begun = time.monotonic()
    for _ in range(2):
        Destroyed(Threads())
    assert time.monotonic() - begun < 10
    eventually(lambda: seen == ["kafka-client"] * 2)
    ended.set()
    eventually(lambda: seen[2:] == ["destroyed"] * 2)


def test_a_client_in_a_circle_is_destroyed(settings: Settings) -> None:
    before = of_librdkafka()
    circle: list[object] = [admin.Admin(settings)]
    circle.append(circle)
    own = of_librdkafka() - before  # those of earlier tests may be ending
    assert own
    del circle
    gc.collect()
    eventually(lambda: not own & of_librdkafka())


def test_a_process_that_has_just_let_go_of_a_client_ends_when_that_is_destroyed() -> None:
    """In the midst of it, it might crash in its last clean-up."""
    ended = subprocess.run([sys.executable, "-c", ENDING], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("destroyed by kafka-client")


def of_librdkafka() -> set[str]:
    """The ids of its threads."""
    found = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # it has just ended
            if (task / "comm").read_text().startswith("rdk:"):
                found.add(task.name)
    return found
