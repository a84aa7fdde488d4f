"""Memory is returned once a process has become idle after work: not while it works, and not again for nothing."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from anabranch.core.engine.idle_memory import EVERY_SECONDS, IdleMemory

pytestmark = pytest.mark.unit


@dataclass
class Process:
    """Its CPU seconds, and when it was collected."""

    used: float = 0.0
    collected: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.memory = IdleMemory(lambda: self.used, lambda: self.collected.append(self.used))

    def works(self, *seconds: float) -> None:
        """CPU seconds of each minute that passes."""
        for each in seconds:
            self.used += each
            self.memory.look(EVERY_SECONDS)


def test_it_is_returned_in_the_first_idle_minute_after_work() -> None:
    process = Process()
    process.works(40, 30, 20, 1, 1, 1)
    assert process.collected == [91]


def test_a_busy_process_is_let_alone() -> None:
    process = Process()
    process.works(*[7.0] * 60)
    assert process.collected == []


def test_an_idle_one_seldom_has_anything_to_return() -> None:
    process = Process()
    process.works(30, *[1.5] * 60)
    assert len(process.collected) == 1 + 90 // 21


def test_work_after_an_idle_time_is_returned_again() -> None:
    process = Process()
    process.works(40, 0, 0, 25, 0)
    assert process.collected == [40, 65]


def test_a_process_that_has_done_little_is_let_alone() -> None:
    process = Process()
    process.works(15, 0, 0, 0)
    assert process.collected == []


def test_what_workers_had_used_is_not_waited_for_again() -> None:
    """The CPU of a process that has ended isn't counted any more."""
    process = Process()
    process.works(40, 55, 0)
    process.works(-50, 30, 0)
    assert process.collected == [95, 75]
