"""Which half serves a partition, and that a published map is read back in full."""

from __future__ import annotations

from datetime import date

import pytest
from anabranch.core.errors import BadInput
from anabranch.lake import CommitMetadata
from anabranch.lake.cut import Cut, Position
from anabranch.serve.half_choice import Prefer, checked_prefer, choose, published_cuts

pytestmark = pytest.mark.unit
DAY = date(2013, 1, 2)


def at(epoch: int) -> Cut:
    return Cut({"flights": Position(epoch, {})})


@pytest.mark.parametrize(
    ("prefer", "published", "touched", "half"),
    [
        ("default", None, 5, "speed"),
        ("default", 5, 5, "batch"),
        ("default", 4, 5, "speed"),
        ("default", 1, None, "batch"),
        ("complete", 1, 5, "batch"),
        ("complete", None, 5, "speed"),
        ("fresh", 8, 5, "speed"),
        ("fresh", 9, 5, "batch"),
        ("fresh", 9, None, "batch"),
    ],
)
def test_a_partition_is_served_by_what_the_halves_really_hold(
    prefer: Prefer, published: int | None, touched: int | None, half: str
) -> None:
    speed: dict[date | None, Cut] = {DAY: at(touched)} if touched is not None else {}
    batch = {DAY: at(published)} if published is not None else {}

    assert choose(speed, batch, at(9), prefer) == {DAY: half}


@pytest.mark.parametrize(("weather", "half"), [(3, "batch"), (2, "speed")])
def test_of_several_topics_each_must_be_covered(weather: int, half: str) -> None:
    batch = Cut({"flights": Position(9, {}), "weather": Position(weather, {})})
    speed = Cut({"flights": Position(5, {}), "weather": Position(3, {})})
    assert choose({DAY: speed}, {DAY: batch}, speed, "default") == {DAY: half}


def test_a_kappa_view_is_one_partition_of_the_speed_half() -> None:
    assert choose({None: at(3)}, {}, at(3), "complete") == {None: "speed"}


def test_a_preference_that_is_none_names_those_that_are() -> None:
    with pytest.raises(BadInput, match="default, complete, fresh") as refused:
        checked_prefer("newest")

    assert refused.value.code == "PREFER_UNKNOWN"


def test_the_published_map_names_every_day_of_its_ranges() -> None:
    cuts = [Cut({"flights": Position(epoch, {0: epoch})}) for epoch in (3, 7)]
    published = [
        {"from": "2013-01-01", "to": "2013-01-02", "cut": cuts[0].to_json(), "run": "a"},
        {"from": "2013-01-04", "to": "2013-01-04", "cut": cuts[1].to_json(), "run": "b"},
    ]
    note = CommitMetadata("view/x/v1/batch", "b", cuts[1], extra={"published": published})

    assert published_cuts(note) == {date(2013, 1, 1): cuts[0], DAY: cuts[0], date(2013, 1, 4): cuts[1]}
