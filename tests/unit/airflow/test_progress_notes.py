"""A run's note says how far its job is while it runs, and what was planned once it has ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from anabranch.apps.airflow.progress_notes import noted, progress_note, progress_of

pytestmark = pytest.mark.unit
PLAN = {"text": "delays v1: 2013-01-01 at flights@3, 4 events to read\npartition ..."}
PLANNED = "Planned: delays v1: 2013-01-01 at flights@3, 4 events to read"


def within(holds: Callable[[], bool], seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_each_change_is_written_once_and_the_plan_comes_back() -> None:
    notes, now = list[str](), ["", "a third", "two thirds"]
    with noted(PLAN, lambda: now[0], notes.append, every=0.01):
        time.sleep(0.1)
        assert notes == [], "there was nothing to say"
        now.pop(0)
        within(lambda: len(notes) == 1)
        time.sleep(0.1)
        now.pop(0)
        within(lambda: len(notes) == 2)
    assert notes == [f"Now: a third\n{PLANNED}", f"Now: two thirds\n{PLANNED}", PLANNED]
    time.sleep(0.05)
    assert len(notes) == 3
    assert "anabranch-note" not in {thread.name for thread in threading.enumerate()}


def test_a_failing_note_costs_only_the_note() -> None:
    def fail(_: str) -> None:
        raise OSError("no Airflow")

    with noted(PLAN, lambda: "a third", fail, every=0.01):
        time.sleep(0.05)
    with pytest.raises(ValueError, match="the job's own"):
        _fail_while_noted(fail)
    assert "anabranch-note" not in {thread.name for thread in threading.enumerate()}


def _fail_while_noted(write: Callable[[str], None]) -> None:
    def broken() -> str:
        raise KeyError("the file is torn")

    with noted(PLAN, broken, write, every=0.01):
        time.sleep(0.05)
        raise ValueError("the job's own")


def test_the_command_line_finds_it_in_the_note() -> None:
    assert progress_of(progress_note(PLAN, "rebuild: 1 of 2 days")) == "rebuild: 1 of 2 days"
    assert progress_of(PLANNED) == ""
    assert progress_of("") == ""
