"""Faults on purpose: repeatable, of the kind that they say, and good events stay as they were."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import date, timedelta

import polars as pl
import pytest
from anabranch.contracts import load_declarations
from anabranch.contracts.model.declarations import Declarations
from anabranch.contracts.sending import EventValidator
from anabranch.core.errors import BadInput
from anabranch.core.project_folder import project_root
from anabranch_samples._rendering import render
from anabranch_samples.faults import KINDS, SMALL, Faults, inject
from anabranch_samples.flights import flight_events

pytestmark = pytest.mark.unit

MANY = Faults(*[0.05] * 7)


@pytest.fixture(scope="module")
def declared() -> Declarations:
    return load_declarations(project_root() / "spark_jobs" / "contracts")


@pytest.fixture(scope="module")
def clean(declared: Declarations) -> pl.DataFrame:
    return render(flight_events(date(2013, 1, 1), 3, declared))


@pytest.fixture(scope="module")
def faulty(declared: Declarations) -> pl.DataFrame:
    return render(inject(flight_events(date(2013, 1, 1), 3, declared), MANY, seed=1))


def refusals(records: pl.DataFrame, declared: Declarations) -> int:
    validator = EventValidator([c for topic in declared.topics.values() for c in topic.contracts])
    count = 0
    for value in records["value"]:
        try:
            validator.check_bytes(value or b"")
        except BadInput:
            count += 1
    return count


def test_the_same_seed_makes_the_same_records(
    clean: pl.DataFrame, faulty: pl.DataFrame, declared: Declarations
) -> None:
    events = flight_events(date(2013, 1, 1), 3, declared)
    assert render(inject(events, MANY, seed=1)).equals(faulty)
    assert not render(inject(events, MANY, seed=2)).equals(faulty)
    assert inject(events, Faults(), seed=1).equals(events)


def test_every_kind_is_there_at_its_rate(clean: pl.DataFrame, faulty: pl.DataFrame) -> None:
    counts = dict(faulty["fault"].drop_nulls().value_counts().iter_rows())
    assert set(counts) == set(KINDS)
    assert len(KINDS) == len(fields(Faults))
    for kind, count in counts.items():
        assert count == pytest.approx(0.05 * clean.height, rel=0.2), kind


def test_no_good_event_is_lost_or_changed(clean: pl.DataFrame, faulty: pl.DataFrame) -> None:
    stand_in = ("broken_contract", "absurd_time", "wrong_clock", "days_late")
    replaced = faulty.filter(pl.col("fault").is_in(stand_in))["id"]
    kept = faulty.filter(pl.col("fault").is_null())
    assert kept.sort("id").equals(clean.filter(~pl.col("id").is_in(replaced.implode())).sort("id"))
    assert faulty["publish_time"].is_sorted()


@pytest.mark.parametrize("kind", ["malformed", "broken_contract"])
def test_bad_records_are_all_bad(faulty: pl.DataFrame, declared: Declarations, kind: str) -> None:
    bad = faulty.filter(fault=kind)
    assert refusals(bad, declared) == bad.height > 100


def test_malformed_records_have_no_type_and_sometimes_no_key_or_value(faulty: pl.DataFrame) -> None:
    bad = faulty.filter(fault="malformed")
    assert bad["event_type"].null_count() == bad.height
    assert 0 < bad["key"].null_count() < bad.height
    assert 0 < bad["value"].null_count() < bad.height
    assert bad.filter(pl.col("value").is_null())["key"].null_count() == bad["value"].null_count(), "no tombstone"
    assert (bad["value"].bin.size() > 100_000).any()


@pytest.mark.parametrize("kind", ["duplicate", "conflict", "wrong_clock", "days_late"])
def test_good_events_on_a_bad_day_keep_their_contract(faulty: pl.DataFrame, declared: Declarations, kind: str) -> None:
    assert refusals(faulty.filter(fault=kind), declared) == 0


def test_a_duplicate_is_the_same_bytes_and_a_conflict_is_not(clean: pl.DataFrame, faulty: pl.DataFrame) -> None:
    for kind, same in (("duplicate", True), ("conflict", False)):
        pairs = faulty.filter(fault=kind).join(clean, on=["source", "id", "key", "topic"], suffix="_first")
        assert pairs.height > 100
        assert ((pairs["value"] == pairs["value_first"]) == same).all()
        assert (pairs["publish_time"] > pairs["publish_time_first"]).all()


def test_a_wrong_clock_is_corrected_by_the_time_of_receipt(clean: pl.DataFrame, faulty: pl.DataFrame) -> None:
    truth = dict(clean.select("id", "time").iter_rows())
    for row in faulty.filter(fault="wrong_clock").iter_rows(named=True):
        assert abs(row["time"] - truth[row["id"]]) >= timedelta(hours=1)
        assert row["time"] + (row["receivedtime"] - row["senttime"]) == truth[row["id"]]
        assert json.loads(row["value"])["senttime"].endswith("Z")


def test_days_late_is_late_at_the_server_too(clean: pl.DataFrame, faulty: pl.DataFrame) -> None:
    late = faulty.filter(fault="days_late").join(clean, on="id", suffix="_first")
    delay = late["publish_time"] - late["publish_time_first"]
    assert delay.len() > 100
    assert delay.is_between(timedelta(days=1), timedelta(days=5)).all(ignore_nulls=False)
    assert late["receivedtime"].equals(late["publish_time"])
    assert late["time"].equals(late["time_first"].alias("time"))


def test_an_absurd_time_is_the_only_thing_wrong(clean: pl.DataFrame, faulty: pl.DataFrame) -> None:
    truth = dict(clean.select("id", "value").iter_rows())
    times = set()
    for row in faulty.filter(fault="absurd_time").iter_rows(named=True):
        found, good = json.loads(row["value"]), json.loads(truth[row["id"]])
        times.add(found.pop("time"))
        good.pop("time")
        assert found == good
    assert {"1900-01-01T00:00:00Z", "2100-01-01T00:00:00Z", "yesterday"} < times


@pytest.mark.parametrize(
    ("shares", "switch"),
    [
        ({"duplicates": -0.1}, "--duplicates"),
        ({"broken_contracts": 1.1}, "--broken-contracts"),
        ({"days_late": float("nan")}, "--days-late"),
        ({"malformed": 0.6, "conflicts": 0.6}, "the faults"),
    ],
)
def test_a_share_that_is_none_names_its_switch(shares: dict[str, float], switch: str) -> None:
    with pytest.raises(BadInput) as caught:
        Faults(**shares)
    assert (caught.value.code, caught.value.fields["parameter"]) == ("FAULT_RATE", switch)


def test_the_small_shares_switch_on_everything() -> None:
    assert all(0 < getattr(SMALL, field.name) < 0.01 for field in fields(Faults))
