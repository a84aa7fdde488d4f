"""What a slow machine leaves out today it runs on the next days, and a usual one leaves nothing out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from lanes import PARTS, SLOW, USUAL_SECONDS, which_examples

pytestmark = pytest.mark.unit
TESTS = Path(__file__).parent.parent
PLACES = ("unit/doctor", "faults/test_bank.py", "faults/test_queues.py")


def collected(part: str | None) -> set[str]:
    chosen = [] if part is None else ["--examples", part]
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "not sweep", *chosen, *PLACES]
    told = subprocess.run(command, cwd=TESTS, capture_output=True, text=True, check=True).stdout
    return {line for line in told.splitlines() if "::" in line}


def test_three_days_run_all_and_each_test_that_is_not_so_dear_runs_on_all() -> None:
    whole, days = collected(None), [collected(f"{PARTS}/{day}") for day in range(PARTS)]
    assert days[0].union(*days[1:]) == whole
    dear = {test.rpartition("::")[2].partition("[")[0] for test in whole - days[0].intersection(*days[1:])}
    assert "test_a_healthy_platform_is_left_in_peace" in dear, "examples"
    assert "test_each_read_shows_the_money_of_its_cut_while_streams_and_a_publication_are_killed" in dear, "a turn"
    assert "test_a_platform_that_runs_is_left_in_peace" not in dear


def test_only_a_slow_machine_leaves_tests_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EXAMPLES", raising=False)
    assert which_examples(USUAL_SECONDS)[0] == "1/0"
    part, told = which_examples(2 * SLOW * USUAL_SECONDS)
    assert part in {f"{PARTS}/{day}" for day in range(PARTS)}
    assert part in told
    monkeypatch.setenv("EXAMPLES", "all")
    assert which_examples(2 * SLOW * USUAL_SECONDS)[0] == "1/0"
