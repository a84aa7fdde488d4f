"""The benchmark's events: the same for the same seed, in Nexmark's proportions, and such as their contracts say."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Any

import polars as pl
import pytest
from anabranch.contracts.sending import EventValidator
from anabranch.core.errors import BadInput
from anabranch_samples._rendering import render

from benchmarks.nexmark.declared import declarations, topic, views
from benchmarks.nexmark.generator import Workload, nexmark_events
from benchmarks.nexmark.things import GAP, HOT_EVERY, LONGEST_AUCTION

pytestmark = pytest.mark.unit

DAY = Workload(20_000)
INTEGERS = ("id", "auction", "bidder", "price", "seller", "category", "initial_bid", "reserve")
DATA = pl.Struct({**dict.fromkeys(INTEGERS, pl.Int64), "url": pl.String, "expires": pl.String, "extra": pl.String})


@pytest.fixture(scope="module")
def day() -> pl.DataFrame:
    return nexmark_events(DAY, declarations())


@pytest.fixture(scope="module")
def facts(day: pl.DataFrame) -> pl.DataFrame:
    """The data of each event as columns, in the order of event time."""
    return day.select("event_type", "time", pl.col("data").str.json_decode(DATA)).unnest("data").sort("time")


def of(facts: pl.DataFrame, kind: str) -> pl.DataFrame:
    return facts.filter(event_type=f"nexmark.{kind}")


def test_the_same_seed_gives_the_same_bytes_and_another_gives_others(day: pl.DataFrame) -> None:
    again = nexmark_events(DAY, declarations())
    assert render(again).equals(render(day), null_equal=True)
    other = nexmark_events(replace(DAY, seed=1), declarations())
    assert not other["data"].equals(day["data"])


def test_of_fifty_events_one_is_a_person_three_are_auctions_and_the_others_bids(facts: pl.DataFrame) -> None:
    kinds = Counter(facts["event_type"])
    assert kinds == {"nexmark.person": 400, "nexmark.auction": 1_200, "nexmark.bid": 18_400}
    fifty = [kind.removeprefix("nexmark.") for kind in facts["event_type"][100:150]]
    assert fifty == ["person"] + ["auction"] * 3 + ["bid"] * 46


def test_every_event_keeps_its_contract(day: pl.DataFrame) -> None:
    validator = EventValidator(topic().contracts)
    for value in render(day)["value"]:
        validator.check_bytes(value)


def test_ids_count_up_and_are_never_given_twice(day: pl.DataFrame, facts: pl.DataFrame) -> None:
    assert day["id"].is_unique().all()
    assert of(facts, "person")["id"].to_list() == list(range(1000, 1400))
    assert of(facts, "auction")["id"].to_list() == list(range(1000, 2200))


def test_events_are_a_gap_apart_and_twenty_thousand_make_a_day(facts: pl.DataFrame) -> None:
    assert facts["time"].diff().drop_nulls().unique().to_list() == [GAP]
    assert DAY.events * GAP == timedelta(days=1)


def test_half_of_the_bids_go_to_the_hot_auction_and_three_quarters_come_from_the_hot_bidder(
    facts: pl.DataFrame,
) -> None:
    bids = of(facts, "bid")
    number = pl.int_range(pl.len()) // 46
    auction, person = number * 3 + 2, number
    shares = bids.select(
        (pl.col("auction") - 1000 == auction // HOT_EVERY * HOT_EVERY).mean().alias("auction"),
        (pl.col("bidder") - 1000 == person // HOT_EVERY * HOT_EVERY + 1).mean().alias("bidder"),
        ((pl.col("auction") - 1000).is_between(auction - 100, auction + 10)).all().alias("near"),
        ((pl.col("bidder") - 1000).is_between(person - 999, person + 10)).all().alias("active"),
    ).row(0, named=True)
    assert shares["auction"] == pytest.approx(0.5, abs=0.03)
    assert shares["bidder"] == pytest.approx(0.75, abs=0.03)
    assert shares["near"]
    assert shares["active"]


def test_three_quarters_of_the_auctions_are_the_hot_sellers(facts: pl.DataFrame) -> None:
    auctions = of(facts, "auction")
    person = pl.int_range(pl.len()) // 3
    hot = auctions.select((pl.col("seller") - 1000 == person // HOT_EVERY * HOT_EVERY).mean()).item()
    assert hot == pytest.approx(0.75, abs=0.05)


def ends(durations: pl.Series) -> tuple[timedelta, timedelta]:
    """The shortest and the longest of them."""
    shortest, longest = durations.min(), durations.max()
    assert isinstance(shortest, timedelta)
    assert isinstance(longest, timedelta)
    return shortest, longest


def test_an_auction_ends_within_four_hours_and_prices_spread_over_six_powers_of_ten(facts: pl.DataFrame) -> None:
    auctions, bids = of(facts, "auction"), of(facts, "bid")
    lasts = auctions.select(pl.col("expires").str.to_datetime(time_zone="UTC") - pl.col("time")).to_series()
    shortest, longest = ends(lasts)
    assert timedelta(0) < shortest < longest < LONGEST_AUCTION <= timedelta(hours=4)
    powers = Counter(bids.select(pl.col("price").log10().floor().cast(pl.Int64)).to_series())
    assert set(powers) == {2, 3, 4, 5, 6, 7}
    assert min(powers.values()) > bids.height / 6 * 0.9
    assert (auctions["reserve"] > auctions["initial_bid"]).all()


def test_nothing_is_published_before_it_happens_and_shares_of_it_are_delayed_and_late(day: pl.DataFrame) -> None:
    waited = day["publish_time"] - day["time"]
    in_group = DAY.group * GAP
    assert timedelta(0) <= ends(waited)[0]
    assert day["publish_time"].is_sorted()
    assert not day["time"].is_sorted()
    delayed, late = (waited > in_group).mean(), (waited >= timedelta(hours=12)).mean()
    assert delayed == pytest.approx(DAY.delayed + DAY.late, abs=0.01)
    assert late == pytest.approx(DAY.late, rel=0.4)
    on_time = waited.filter(waited < timedelta(hours=12))
    assert ends(on_time)[1] <= timedelta(minutes=30) + in_group < topic().allowed_lateness


def test_each_group_of_events_is_published_together_in_another_order() -> None:
    times = nexmark_events(Workload(1_000, delayed=0, late=0), declarations())["time"]
    groups = times.to_frame().with_row_index("place").group_by(pl.col("place") // 10, maintain_order=True)
    assert [group["time"].is_sorted() for _, group in groups] == [False] * 100
    spans = groups.agg(pl.col("time").max() - pl.col("time").min())["time"]
    assert spans.to_list() == [9 * GAP] * 100


def test_without_disorder_events_are_published_in_the_order_of_time() -> None:
    calm = nexmark_events(Workload(1_000, group=1, delayed=0, late=0), declarations())
    assert calm["time"].is_sorted()
    assert (calm["publish_time"] == calm["time"]).all()


@pytest.mark.parametrize(
    "wrong",
    [{"events": 0}, {"group": 0}, {"seed": -1}, {"late": -0.1}, {"delayed": 0.9, "late": 0.2}, {"late": math.nan}],
)
def test_a_workload_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadInput) as error:
        Workload(**{"events": 10, **wrong})
    assert error.value.code == "WORKLOAD"


def test_events_have_the_mean_size_of_the_benchmark(facts: pl.DataFrame) -> None:
    """The padding of a bid: 100 bytes less the 32 of its numbers, give or take a fifth."""
    sizes = of(facts, "bid")["extra"].str.len_bytes()
    assert sizes.is_between(54, 82).all(ignore_nulls=False)
    assert sizes.mean() == pytest.approx(68, abs=1)


def test_the_topic_is_not_the_projects_own() -> None:
    """`make up` lands what spark_jobs declares; the benchmark's events are none of its business."""
    from anabranch.contracts import load_declarations
    from anabranch.core.project_folder import project_root

    assert topic().name not in load_declarations(project_root() / "spark_jobs" / "contracts").topics
    assert {view.events[0].split(".")[0] for view in views()} == {"nexmark"}


def test_the_declared_days_reach_as_far_as_the_joins(facts: pl.DataFrame) -> None:
    """A week of events: whoever sells registered at most that long before or after, and so with what is bid on."""
    week = nexmark_events(Workload(140_000), declarations())
    columns = ("event_type", "time", pl.col("data").str.json_decode(DATA))
    everything = week.select(*columns).unnest("data")
    auctions, declared = of(everything, "auction"), {view.name: view for view in views()}
    persons = of(everything, "person").select(pl.col("id").alias("seller"), pl.col("time").alias("registered"))
    sold = auctions.join(persons, on="seller").select(ago=pl.col("time") - pl.col("registered")).to_series()
    opened = auctions.select(pl.col("id").alias("auction"), pl.col("time").alias("opened"))
    bid = of(everything, "bid").join(opened, on="auction").select(ago=pl.col("time") - pl.col("opened")).to_series()
    for name, ago in (("nexmark_q3", sold), ("nexmark_q20", bid)):
        view = declared[name]
        shortest, longest = ends(ago)
        assert timedelta(0) < -shortest < view.lookahead
        assert view.lookback / 3 < longest < view.lookback
    closed = pl.col("expires").str.to_datetime(time_zone="UTC").max() - pl.col("time").min()
    _, active = ends(auctions.group_by("seller").agg(closed.alias("active"))["active"])
    assert active < declared["nexmark_q6"].lookback
