"""An engine that ends by itself is named as the reason, however far its end is when somebody notices."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from anabranch.core.engine import lifetime
from anabranch.core.engine.lifetime import engine
from anabranch.core.errors import AnabranchError
from anabranch.core.settings import Settings
from py4j.protocol import Py4JError, Py4JNetworkError

pytestmark = pytest.mark.unit
UNTOLD = Py4JError("An error occurred while calling o77.sc")
"""What a JVM answers that has no memory left for the reason."""


class Session:
    """What the client of an engine is to ``lifetime``: its context, and how it stops."""

    def __init__(self, stopped: bool = False, fails: Exception | None = None) -> None:
        self.stops, self.fails = 0, fails
        context = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: stopped))
        self.sparkContext = SimpleNamespace(_jsc=context)

    def stop(self) -> None:
        self.stops += 1
        if self.fails:
            raise self.fails


Start = Callable[[int | None, Session], Settings]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """An engine whose JVM is a process that exits with this code in half a second; None: it goes on."""
    started: list[subprocess.Popen[bytes]] = []

    def made(code: int | None, session: Session) -> Settings:
        program = (
            "import time; time.sleep(600)" if code is None else f"import os, time; time.sleep(0.5); os._exit({code})"
        )
        jvm = subprocess.Popen([sys.executable, "-S", "-c", program])
        started.append(jvm)
        monkeypatch.setattr(lifetime, "session", lambda *_: session)
        monkeypatch.setattr(lifetime, "_jvm", lambda: jvm)
        return Settings(home=tmp_path, spark_driver_memory="600m")

    yield made
    for jvm in started:
        jvm.kill()
        jvm.wait()


def code_of(settings: Settings, raised: Exception | None = None) -> str:
    """The code of what comes out of the block."""

    def block() -> None:
        with engine(settings, "test"):
            if raised is not None:
                raise raised

    with pytest.raises(AnabranchError) as told:
        block()
    return told.value.code


@pytest.mark.parametrize(
    "error",
    [UNTOLD, Py4JNetworkError("Answer from Java side is empty"), ConnectionRefusedError(111, "Connection refused")],
)
def test_a_call_that_is_not_answered_waits_for_the_end(start: Start, error: Exception) -> None:
    session = Session(fails=ConnectionRefusedError(111, "Connection refused"))
    assert code_of(start(3, session), error) == "ENGINE_OUT_OF_MEMORY"
    assert session.stops == 0


def test_a_block_that_ends_since_the_engine_was_stopped(start: Start) -> None:
    """The stream's process looks whether its engine has stopped, and then returns."""
    assert code_of(start(52, Session(stopped=True))) == "ENGINE_OUT_OF_MEMORY"
    assert code_of(start(1, Session(stopped=True))) == "ENGINE_ENDED"


def test_an_engine_that_ends_while_it_is_stopped(start: Start) -> None:
    refused = Session(fails=ConnectionRefusedError(111, "Connection refused"))
    assert code_of(start(3, refused)) == "ENGINE_OUT_OF_MEMORY"
    assert code_of(start(3, refused), ValueError("of the block")) == "ENGINE_OUT_OF_MEMORY"


@pytest.mark.parametrize("error", [ValueError("wrong"), Py4JError("Method a([]) does not exist"), UNTOLD])
def test_an_engine_that_runs_is_no_reason(start: Start, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifetime, "_END_SECONDS", 0.1)
    session = Session()
    with pytest.raises(type(error)) as told, engine(start(None, session), "test"):
        raise error
    assert told.value is error
    assert session.stops == 1


def test_a_block_that_has_stopped_its_engine_waits_for_nothing(start: Start) -> None:
    session: Any = Session()
    with engine(start(None, session), "test"):
        session.sparkContext._jsc = None


LEAVE = """
import atexit, time
from anabranch.core.engine.lifetime import leave
class Client:
    def __del__(self): time.sleep(60)
held = Client()
atexit.register(print, "at its end", end="")
print("until then", end="; ")
leave(3)
"""


def test_a_process_ends_without_destroying_what_may_wait() -> None:
    """As Kafka's clients do: for their threads, and these until a moment of the machine's clock."""
    left = subprocess.run([sys.executable, "-c", LEAVE], capture_output=True, text=True, timeout=30, check=False)
    assert (left.returncode, left.stdout) == (3, "until then; at its end"), left.stderr
