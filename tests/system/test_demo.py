"""The whole way, and a change of it, as a new user sees them: the demo's own command, on some days."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from anabranch.core.settings import Settings
from anabranch.operate.runtime import lifecycle
from anabranch.operate.runtime.environment import environment

pytestmark = [pytest.mark.system, pytest.mark.timeout(3_600)]


# make test has a repair and a migration of its own on a real Airflow (test_reprocess_dag, test_clicks); both acts, and
# both twice in a row in the same folder: make sweep.
@pytest.mark.parametrize(
    ("runs", "second"),
    [([3], False), pytest.param([3, 2], True, marks=pytest.mark.sweep)],
    ids=["first act", "both acts, twice"],
)
def test_days_go_the_whole_way(own_settings: Callable[[str], Settings], runs: list[int], second: bool) -> None:
    settings = own_settings(f"demo-{len(runs)}")
    for days in runs:
        told = _demo(settings, days, "--second-act" if second else "--one-act")
        assert told.returncode == 0, told.stdout + told.stderr
        assert f"certificates: {days} of {days} equal" in told.stdout
        assert told.stdout.count("served rows agree") == 3
        if second:
            assert "Certificates: 1 of 1 equal" in told.stdout, "the day that late events came for was not repaired"
            assert "rolled back automatically: a check failed: v1 and v2 differ in delay_minutes" in told.stdout
            assert "v2 100 %  by run" in told.stdout, "the good version didn't come to all readers"
            assert "0 reads were wrong" in told.stdout
        assert "gap-free" in told.stdout
        assert "NOT sound" not in told.stdout
        assert "✗" not in told.stdout
    ours = [p for p in psutil.process_iter(["cmdline"]) if str(settings.home) in " ".join(p.info["cmdline"] or [])]
    assert not ours, "the demo left processes behind"


def _demo(settings: Settings, days: int, acts: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).parent / "anabranch"), "demo", "--days", str(days), acts]
    own = {**os.environ, **environment(settings), "COLUMNS": "120"}
    try:
        return subprocess.run(command, env=own, capture_output=True, text=True, timeout=560, check=False)
    except BaseException:
        lifecycle.stop(settings)  # a demo that is killed can't stop what it started
        raise
