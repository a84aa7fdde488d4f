"""The platform that the other tests shared is gone without a trace: the last of their files."""

from __future__ import annotations

import signal
from datetime import datetime

import psutil
import pytest
from anabranch.core.settings import Settings
from anabranch.operate.runtime import lifecycle, process_registry
from support.processes import alive, eventually, everything, listening

pytestmark = pytest.mark.system


def moment(log: str, said: str) -> datetime:
    line = [line for line in log.splitlines() if said in line][-1]
    return datetime.fromisoformat(line.split()[0])


@pytest.fixture
def terminated(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The pids of those that this process sends SIGTERM to, in order."""
    pids, send = list[int](), psutil.Process.send_signal

    def recorded(process: psutil.Process, number: int) -> None:
        if number == signal.SIGTERM:
            pids.append(process.pid)
        send(process, number)

    monkeypatch.setattr(psutil.Process, "send_signal", recorded)
    return pids


def test_stop_leaves_no_process_and_no_open_port(platform: Settings, terminated: list[int]) -> None:
    processes = everything(platform)
    assert len(processes) > 10
    record = process_registry.read(platform)["airflow-triggerer"]
    family = {process.pid for process in process_registry.family(record)}
    assert len(family) > 1
    stopped = lifecycle.stop(platform)
    assert stopped[-2:] == ["kafka", "postgres"]
    eventually(lambda: not any(alive(process) for process in processes), 5)
    triggerer = (platform.logs / "airflow-triggerer.log").read_text()
    began, ended = (moment(triggerer, said) for said in ("Waiting for triggers", "Exited trigger loop"))
    assert (ended - began).total_seconds() < 5, "it waits 10 s for a child that has ended"
    assert [pid for pid in terminated if pid in family].index(record.pid) > 0, "it is told after its child"
    assert lifecycle.status(platform) == []
    ports = {platform.kafka_port, platform.kafka_controller_port, platform.postgres_port, platform.airflow_port}
    assert not {each.port for each in listening()} & ports
