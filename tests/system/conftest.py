"""Real servers for the system tests: free ports, a home of their own, stopped by their records."""

from __future__ import annotations

import contextlib
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from anabranch.control import lifecycle
from anabranch.settings import Settings


@pytest.fixture(scope="session")
def free_port() -> Callable[[], int]:
    """Gives a port of loopback that nobody listens on, and each port once.

    Not from the range that outgoing connections take theirs from: it could be taken before a server gets it.
    """
    low, high = (int(n) for n in Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    candidates = iter([*range(20_000, low), *range(high + 1, 65_535)])

    def next_free() -> int:
        for port in candidates:
            with socket.socket() as probe, contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return port
        raise RuntimeError("no free port")

    return next_free


@pytest.fixture(scope="session")
def own_settings(own_home: Path, free_port: Callable[[], int]) -> Callable[[str], Settings]:
    """Makes the settings of a platform (by the name of its folder) that can run beside others on this machine."""
    names = ("kafka_port", "kafka_controller_port", "postgres_port", "airflow_port")

    def make(name: str) -> Settings:
        ports: dict[str, Any] = {port: free_port() for port in names}
        return Settings(home=own_home / name, bootstrap_servers="", **ports)

    return make


@pytest.fixture(scope="session")
def own_home() -> Iterator[Path]:
    """A folder that Postgres can reach when root runs it as another user (pytest's own folders are private)."""
    with tempfile.TemporaryDirectory(prefix="anabranch-test-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture(scope="session")
def broker(own_settings: Callable[[str], Settings]) -> Iterator[Settings]:
    """A real broker, and the settings that lead to it. Its topics are shared by the session: use your own names."""
    with lifecycle.running(own_settings("broker"), ["kafka"]) as settings:
        yield settings


@pytest.fixture(scope="session")
def platform(own_settings: Callable[[str], Settings]) -> Iterator[Settings]:
    """Everything, shared by the session, in small epochs: an event is late only after an epoch that was further. Three
    days of departures are too many to be reprocessed unasked."""
    few = {"max_offsets_per_trigger": 2_000, "approval_events": 2_000}
    with lifecycle.running(own_settings("platform").model_copy(update=few)) as settings:
        yield settings
