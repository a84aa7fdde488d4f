"""The platform that the other tests shared is gone without a trace: the last of their files."""

from __future__ import annotations

from datetime import datetime

import pytest
from anabranch.core.settings import Settings
from anabranch.operate.runtime import lifecycle
from support.processes import alive, eventually, everything, listening

pytestmark = pytest.mark.system


def moment(log: str, said: str) -> datetime:
    line = [line for line in log.splitlines() if said in line][-1]
    return datetime.fromisoformat(line.split()[0])


def test_stop_leaves_no_process_and_no_open_port(platform: Settings) -> None:
    processes = everything(platform)
    assert len(processes) > 10
    stopped = lifecycle.stop(platform)
    assert stopped[-2:] == ["kafka", "postgres"]
    eventually(lambda: not any(alive(process) for process in processes), 5)
    triggerer = (platform.logs / "airflow-triggerer.log").read_text()
    began, ended = (moment(triggerer, said) for said in ("Waiting for triggers", "Exited trigger loop"))
    assert (ended - began).total_seconds() < 5, "it waits 10 s for a child that has ended"
    assert "Process exited" not in triggerer.rpartition("Waiting for triggers")[2], "it was told before its child"
    assert lifecycle.status(platform) == []
    ports = {platform.kafka_port, platform.kafka_controller_port, platform.postgres_port, platform.airflow_port}
    assert not {each.port for each in listening()} & ports
