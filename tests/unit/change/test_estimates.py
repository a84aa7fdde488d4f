"""What a reprocess will take, by what earlier ones took."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from anabranch.change.estimates import NEWEST, Outcome, estimate, outcomes, record_outcome
from anabranch.core.settings import Settings

pytestmark = pytest.mark.unit
NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)


def took(run: int, events: int, seconds: float, estimated: float | None = None) -> Outcome:
    return Outcome(f"run-{run}", 1, events, seconds, events * 10, NOON + timedelta(hours=run), estimated)


def test_without_an_earlier_run_there_is_none() -> None:
    assert estimate([], 1_000) is None


def test_a_fixed_part_and_a_part_for_each_event() -> None:
    past = [took(n, n * 1_000, 40 + 0.002 * n * 1_000) for n in range(1, 6)]
    found = estimate(past, 100_000)
    assert found is not None
    assert found.seconds == pytest.approx(240)
    assert (found.bytes, found.runs) == (1_000_000, 5)


def test_one_run_on_a_busy_machine_moves_nothing() -> None:
    past = [*(took(n, n * 1_000, 40.0) for n in range(1, 8)), took(8, 3_500, 900.0)]
    found = estimate(past, 10_000)
    assert found is not None
    assert found.seconds == pytest.approx(40, abs=1)


def test_more_events_than_were_ever_read_take_longer_and_fewer_no_shorter() -> None:
    past = [took(1, 1_000, 40.0), took(2, 1_000, 44.0)]
    assert [found.seconds for events in (10, 1_000, 3_000) if (found := estimate(past, events))] == [42, 42, 126]


def test_more_events_never_take_less_time() -> None:
    found = estimate([took(1, 1_000, 60.0), took(2, 50_000, 40.0)], 1_000_000)
    assert found is not None
    assert found.seconds == 50


def test_it_says_by_how_much_the_earlier_ones_were_wrong() -> None:
    found = estimate([took(1, 1_000, 40.0), took(2, 1_000, 50.0, 40.0), took(3, 1_000, 40.0, 44.0)], 1_000)
    assert found is not None
    assert found.error == 0.15
    assert str(found) == "about 40 s and 0.01 MB, by 3 earlier runs, whose own estimates were off by 15%"


def test_days_without_events_have_an_estimate() -> None:
    found = estimate([took(1, 0, 30.0)], 0)
    assert found is not None
    assert (found.seconds, found.bytes) == (30, 0)


def test_outcomes_are_kept_by_run_and_a_broken_file_is_left_out(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    assert outcomes(settings, "delays", 1) == []
    kept = [took(n, 1_000, 40.0, 38.5) for n in range(1, NEWEST + 3)]
    for outcome in reversed(kept):
        record_outcome(settings, "delays", 1, outcome)
    path = record_outcome(settings, "delays", 1, kept[-1])
    path.with_name("torn.outcome.json").write_text('{"run": ')
    assert outcomes(settings, "delays", 1) == kept[-NEWEST:]
    assert outcomes(settings, "delays", 2) == []
