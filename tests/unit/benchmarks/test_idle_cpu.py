"""The CPU of a platform is that of its processes, each once."""

from __future__ import annotations

import psutil
import pytest
from anabranch.core.settings import Settings
from anabranch.operate.runtime import process_registry

from benchmarks.cases import day_again

pytestmark = pytest.mark.unit


def test_a_process_in_two_families_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The supervisor's family has those of all parts."""
    here = psutil.Process()
    monkeypatch.setattr(process_registry, "read", lambda settings: {"supervisor": 1, "part": 2})
    monkeypatch.setattr(process_registry, "family", lambda record: [psutil.Process(here.pid)])
    before = sum(here.cpu_times()[:2])
    found = day_again._cpu_seconds(Settings())
    assert before <= found <= sum(here.cpu_times()[:2])
