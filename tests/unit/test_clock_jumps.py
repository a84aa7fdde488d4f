"""A wall clock that is set ahead makes nothing old, for as long as what is kept for days could look so."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from anabranch.core.clocks import (
    JUMP_SECONDS,
    KEPT_SECONDS,
    READING,
    ClockReading,
    Jump,
    jump_text,
    note_clock,
    read_clock,
    unjumped,
)
from anabranch.core.errors import BrokenState
from anabranch.core.settings import Settings

pytestmark = pytest.mark.unit
HOUR, DAY = 3_600.0, 86_400.0


@dataclass
class Machine:
    """Its two clocks."""

    true: float = 1_000_000_000.0
    wrong: float = 0.0

    def wall(self) -> float:
        return self.true + self.wrong

    def steady(self, _: int) -> float:
        return self.true - 999_000_000.0

    def passes(self, seconds: float) -> None:
        self.true += seconds


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    found = Machine()
    monkeypatch.setattr(time, "time", found.wall)
    monkeypatch.setattr(time, "clock_gettime", found.steady)
    return found


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path)


def file(settings: Settings) -> Path:
    return settings.home / "maintenance" / "clock.json"


def test_without_a_jump_it_is_the_wall_clock(machine: Machine, settings: Settings) -> None:
    for _ in range(50):
        assert unjumped(note_clock(settings)) == machine.wall()
        machine.passes(HOUR)
        machine.wrong += JUMP_SECONDS / 50  # as a server of time corrects it
    assert jump_text(read_clock(settings)) == ""


def test_a_jump_ahead_makes_nothing_older_for_a_month(machine: Machine, settings: Settings) -> None:
    note_clock(settings)
    machine.passes(HOUR)
    machine.wrong = 8 * DAY
    assert unjumped(read_clock(settings)) == machine.true
    assert "was set ahead by 691,200 s" in jump_text(note_clock(settings))
    jumped = machine.true
    while machine.true < jumped + KEPT_SECONDS - HOUR:
        assert unjumped(note_clock(settings)) == machine.true
        machine.passes(7 * HOUR)
    machine.passes(7 * HOUR)
    assert unjumped(note_clock(settings)) == machine.wall()


def test_a_clock_that_is_set_back_again_has_made_no_jump(machine: Machine, settings: Settings) -> None:
    note_clock(settings)
    for wrong in (DAY, 3 * DAY, 2 * DAY, 0.0):
        machine.wrong = wrong
        assert unjumped(note_clock(settings)) == machine.true
    assert jump_text(read_clock(settings)) == ""


def test_each_of_several_jumps_counts_for_a_month(machine: Machine, settings: Settings) -> None:
    note_clock(settings)
    for after, gains in ((0.0, 2 * DAY), (10 * DAY, 3 * DAY)):
        machine.passes(after)
        machine.wrong += gains
        note_clock(settings)
    for passed, ahead in ((KEPT_SECONDS - 11 * DAY, 5 * DAY), (2 * DAY, 3 * DAY), (8 * DAY, 3 * DAY), (2 * DAY, 0.0)):
        machine.passes(passed)
        assert note_clock(settings).ahead == ahead


def test_a_jump_makes_no_earlier_jump_older(machine: Machine, settings: Settings) -> None:
    note_clock(settings)
    for gains in (8 * DAY, KEPT_SECONDS + DAY, KEPT_SECONDS + DAY):
        machine.passes(HOUR)
        machine.wrong += gains
        assert unjumped(note_clock(settings)) == machine.true


def test_a_machine_that_is_paused_each_night_keeps_things_for_as_long_as_it_ran_a_month(
    machine: Machine, settings: Settings
) -> None:
    """Its clock that can't be set stands still meanwhile, so that the other one gains eight hours."""
    for _ in range(200):
        note_clock(settings)
        machine.passes(16 * HOUR)
        machine.wrong += 8 * HOUR
    assert note_clock(settings).ahead == KEPT_SECONDS / (16 * HOUR) * 8 * HOUR


def test_a_clock_that_is_set_back_makes_everything_younger(machine: Machine, settings: Settings) -> None:
    note_clock(settings)
    machine.wrong = -DAY
    assert unjumped(note_clock(settings)) == machine.wall() < machine.true


def test_a_look_alone_writes_nothing(machine: Machine, settings: Settings) -> None:
    read_clock(settings)
    assert not file(settings).exists()


def test_what_an_earlier_boot_has_seen_counts_on_and_its_clock_is_not_compared(
    machine: Machine, settings: Settings
) -> None:
    note_clock(settings)
    machine.wrong = 8 * DAY
    seen = note_clock(settings)
    READING.write(file(settings), replace(seen, boot="another", steady=5.0))
    machine.passes(DAY)
    assert unjumped(note_clock(settings)) == machine.true


def test_a_clock_that_is_corrected_over_a_reboot_is_forgiven(machine: Machine, settings: Settings) -> None:
    """By as much as it says less than before; the hour is not known."""
    note_clock(settings)
    machine.wrong = 365 * DAY
    seen = note_clock(settings)
    READING.write(file(settings), replace(seen, boot="another", steady=5.0))
    machine.passes(HOUR)
    machine.wrong = 0.0
    assert unjumped(note_clock(settings)) == machine.true - HOUR
    machine.passes(DAY)
    assert note_clock(settings).ahead == HOUR
    machine.passes(KEPT_SECONDS)
    assert unjumped(note_clock(settings)) == machine.wall()
    assert jump_text(read_clock(settings)) == ""


def test_a_small_correction_after_a_jump_forgives_nothing(machine: Machine, settings: Settings) -> None:
    """The moment of the jump lies in the future then, by less than is a jump."""
    note_clock(settings)
    machine.wrong = 8 * DAY
    seen = note_clock(settings)
    for boot in (seen.boot, "another"):
        READING.write(file(settings), replace(seen, boot=boot))
        machine.wrong = 8 * DAY - JUMP_SECONDS / 2
        assert note_clock(settings).ahead == 8 * DAY


def test_what_is_left_of_a_jump_by_the_clocks_inaccuracy_is_none(machine: Machine, settings: Settings) -> None:
    note_clock(settings)
    for wrong in (8 * DAY + 0.01, 0.02):
        machine.wrong = wrong
        note_clock(settings)
    assert jump_text(read_clock(settings)) == ""


def test_a_jump_of_the_future_counts_from_now_on(machine: Machine, settings: Settings) -> None:
    now = note_clock(settings)
    READING.write(file(settings), replace(now, jumps=(Jump(8 * DAY, now.wall + DAY),)))
    machine.passes(HOUR)
    assert note_clock(settings).ahead == 8 * DAY
    machine.passes(KEPT_SECONDS)
    assert note_clock(settings).ahead == 0.0


def test_one_that_can_not_be_read_is_not_taken_for_none(machine: Machine, settings: Settings) -> None:
    file(settings).mkdir(parents=True)
    for look in (read_clock, note_clock):
        with pytest.raises(BrokenState) as unreadable:
            look(settings)
        assert unreadable.value.code == "CLOCK_UNREADABLE"


def test_one_that_a_power_cut_tore_begins_anew(machine: Machine, settings: Settings) -> None:
    note_clock(settings)
    file(settings).write_text("{")
    assert note_clock(settings) == ClockReading(read_clock(settings).boot, machine.steady(0), machine.wall())
