"""What a run will take, by what earlier ones took: in synthetic histories whose truth is known."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from anabranch.change.estimates import FEWEST, NEWEST, Estimate, Outcome, estimate, outcomes, record_outcome
from anabranch.core.settings import Settings
from anabranch.lake.layout import VersionRef

pytestmark = pytest.mark.unit
NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)
FIXED, PER_DAY, PER_EVENT = 38.0, 0.6, 0.00004
"""Seconds, as measured on two cores: two starts of Spark, a day's files and certificates, an event."""


def took(run: int, days: int, events: int, seconds: float, estimated: float | None = None) -> Outcome:
    return Outcome(f"run-{run}", days, events, seconds, events * 10, NOON + timedelta(hours=run), estimated)


def truth(days: int, events: int) -> float:
    return FIXED + PER_DAY * days + PER_EVENT * events


def history(sizes: Sequence[tuple[int, int]], noise: float = 0.0, seed: int = 1) -> list[Outcome]:
    """Runs of these days and events, oldest first; each takes up to ``noise`` (relative) more or less."""
    chance = random.Random(seed)
    return [
        took(n, days, events, truth(days, events) * chance.uniform(1 - noise, 1 + noise))
        for n, (days, events) in enumerate(sizes)
    ]


MIXED = [(1, 900), (2, 1_800), (31, 27_000), (1, 80_000), (7, 6_000), (1, 500), (10, 400_000), (3, 2_500), (5, 90_000)]


def test_no_run_one_and_two_are_no_estimate_and_say_so() -> None:
    needed, one, two = "no estimate: 3 earlier runs of this version are needed", "1 day and 900", "2 days and 1,800"
    assert [str(estimate(history(MIXED[:count]), 1, 900)) for count in range(FEWEST)] == [
        f"{needed}, there is none",
        f"{needed}, there is one; the newest took 39 s for {one} events",
        f"{needed}, there are 2; the newest took 39 s for {two} events",
    ]


@pytest.mark.parametrize("count", [1, 3, 9])
def test_small_runs_say_nothing_of_a_large_one(count: int) -> None:
    """Time in proportion to events would say 1,213 minutes here."""
    small = history([(1, 22)] * count)
    found = estimate(small, 31, 22 * 31 * 60)
    assert found.seconds is None
    if count >= FEWEST:
        assert found.reason == (
            f"31 days are much more than any of the {count} earlier runs of this version had; the largest took "
            "39 s for 1 day and 22 events"
        )
    assert estimate(small, 1, 22).seconds == (pytest.approx(truth(1, 22), rel=0.01) if count >= FEWEST else None)


def test_runs_of_two_sizes_say_what_is_fixed() -> None:
    past = history([(1, 900), (1, 1_000), (31, 28_000), (31, 26_000)], noise=0.02)
    found = estimate(past, 300, 270_000)
    assert found.seconds == pytest.approx(truth(300, 270_000), rel=0.15)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("days", "events"), [(1, 900), (31, 27_000), (60, 60_000), (1, 700_000), (10, 800_000)])
def test_within_a_fifth_of_the_truth_where_runs_vary_by_a_tenth(seed: int, days: int, events: int) -> None:
    found = estimate(history(MIXED * 2, noise=0.1, seed=seed), days, events)
    assert found.seconds == pytest.approx(truth(days, events), rel=0.2)
    assert found.bytes == events * 10


def test_runs_on_a_busy_machine_move_nothing() -> None:
    past = history(MIXED * 2)
    for place, seconds in ((0, 900.0), (7, 400.0), (13, 1_800.0)):
        past[place] = took(place, past[place].partitions, past[place].events, seconds)
    for days, events in ((1, 900), (31, 27_000), (10, 400_000)):
        assert estimate(past, days, events).seconds == pytest.approx(truth(days, events), rel=0.05)


def test_more_events_never_take_less_time() -> None:
    past = [took(n, 1, 1_000 * n, 60.0 - n) for n in range(1, 8)]
    seconds = [found for events in (10, 5_000, 30_000) if (found := estimate(past, 1, events).seconds)]
    assert seconds == sorted(seconds)
    assert seconds[-1] < 61


def test_it_says_how_often_it_was_right_and_how_far_it_was_off() -> None:
    past = history(MIXED * 2, noise=0.1)
    past[-1] = took(99, past[-1].partitions, past[-1].events, past[-1].seconds * 3)  # one of the last ten
    found = estimate(past, 31, 27_000)
    assert (found.close, found.judged) == (8, 10)
    assert found.error is not None
    assert found.error < 0.3
    said = f"by 18 earlier runs; 8 of the last 10 took within {found.error:.0%} of their estimates"
    assert re.fullmatch(rf"takes about 5\d s and 0.27 MB, {said}", str(found))


def test_what_was_much_larger_than_all_before_is_not_held_against_it() -> None:
    past = history([*([(1, 900)] * 6), (31, 27_000), (1, 900)])
    found = estimate(past, 1, 900)
    assert found.judged == 4, "the month had no estimate, so it can't have been wrong"


def test_the_first_estimate_can_not_be_judged() -> None:
    said = str(estimate(history(MIXED[:FEWEST]), 2, 1_800))
    assert said.endswith("by 3 earlier runs; too few to say by how much that is off")


def test_days_without_events_have_an_estimate() -> None:
    found = estimate([took(n, 1, 0, 30.0) for n in range(3)], 1, 0)
    assert (found.seconds, found.bytes) == (30, 0)


def test_an_estimate_is_handed_on_as_data() -> None:
    for found in (estimate(history(MIXED), 1, 900), estimate([], 1, 900)):
        assert Estimate(**found.to_json()) == found


def test_outcomes_are_kept_by_run_and_a_broken_file_is_left_out(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    assert outcomes(VersionRef(settings, "delays", 1)) == []
    kept = [took(n, 1, 1_000, 40.0, 38.5) for n in range(1, NEWEST + 3)]
    for outcome in reversed(kept):
        record_outcome(VersionRef(settings, "delays", 1), outcome)
    path = record_outcome(VersionRef(settings, "delays", 1), kept[-1])
    path.with_name("torn.outcome.json").write_text('{"run": ')
    assert outcomes(VersionRef(settings, "delays", 1)) == kept[-NEWEST:]
    assert outcomes(VersionRef(settings, "delays", 2)) == []
