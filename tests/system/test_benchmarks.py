"""Every benchmark once with tiny data: one that a change has broken is red on the same day."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from anabranch.core.settings import Settings
from anabranch.operate.runtime import lifecycle
from anabranch_samples import publishing
from anabranch_samples._rendering import render
from support.browser import chromium

from benchmarks import report, trust
from benchmarks.cases import CASES
from benchmarks.cases.day_again import live_events
from benchmarks.child import measured
from benchmarks.figures import Report
from benchmarks.live_streams import ALL_VIEWS, streaming
from benchmarks.world import World, fill_landing, fill_log

if TYPE_CHECKING:
    import polars as pl
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.system, pytest.mark.spark]
SHARED = {"day_again", "pages"}
STREAMS = ("replay", "freshness")
LATE_SECONDS = 2.2


@pytest.fixture(scope="module")
def world(own_settings: Callable[[str], Settings], spark: SparkSession) -> Iterator[World]:
    """Three days of flights in a real broker, landed. Each benchmark makes its own homes beside this one."""
    # Tiny commits would else take the short way of small ones, which no full run takes.
    large = {"shuffle_partitions": 2, "small_commit_rows": 100}
    settings = own_settings("benchmarks/home").model_copy(update=large)
    settings.home.mkdir(parents=True)
    with lifecycle.running(settings, ["kafka"]) as running:
        here = World(running, "tiny", spark)
        fill_log(here)
        fill_landing(here)
        yield here


@pytest.fixture(scope="module")
def streams(own_settings: Callable[[str], Settings]) -> Iterator[World]:
    """Streams of the views that are measured live, in a home of their own; they hold what was sent before."""
    world = World(own_settings("benchmarks-streams/home"), "tiny")
    with streaming(world, ALL_VIEWS, "live") as settings:
        yield replace(world.at(settings), platform=True)


@pytest.mark.parametrize("name", [name for name in CASES if name not in {*SHARED, *STREAMS}])
def test_it_ends_well_and_says_that_it_gives_no_figure(
    world: World, own_settings: Callable[[str], Settings], name: str
) -> None:
    if not CASES[name].log:  # it may start a platform of its own, beside the broker of the others
        own = own_settings(f"benchmarks-{name}")
        ports = {port: getattr(own, port) for port in type(own).model_fields if port.endswith("_port")}
        world = world.at(world.settings.model_copy(update=ports))
    check(name, measured(name, world))


@pytest.mark.parametrize("name", STREAMS)
def test_live_records_on_the_streams_of_these_tests(streams: World, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first record is sent late, as on a busy machine; the next ones at once, since a pace makes up for it."""

    def late(events: pl.DataFrame) -> pl.DataFrame:
        time.sleep(LATE_SECONDS)
        return render(events)

    monkeypatch.setattr(publishing, "render", late)
    check(name, measured(name, streams))


def test_days_done_again_on_the_platform_of_all_tests(
    platform: Settings, three_days: Callable[[Settings], int]
) -> None:
    three_days(platform)
    check("day_again", measured("day_again", World(platform, "tiny", platform=True)))


@pytest.mark.skipif(chromium() is None, reason="no Chromium on PATH: run infra/chromium.sh as root, or install one")
def test_pages_of_the_platform_of_all_tests(platform: Settings, three_days: Callable[[Settings], int]) -> None:
    three_days(platform)
    check("pages", measured("pages", World(platform, "tiny", platform=True)))


def check(name: str, found: Report) -> None:
    assert found.name == name
    assert found.samples
    assert all(value > 0 for values in found.samples.values() for value in values)
    assert Report.from_json(json.loads(json.dumps(found.to_json()))) == found
    assert any("tiny run" in doubt for doubt in trust.doubts(found))
    with pytest.raises(ValueError, match=f"{name} gives no figure"):
        report.keep(found)


def test_live_events_come_until_they_are_stopped(world: World) -> None:
    """For runs on a busy platform, which a tiny one doesn't have. The last test: the log isn't the others' any more."""
    with live_events(world.settings, world) as live:
        time.sleep(2.5)
        assert live.is_alive()
    assert not live.is_alive()
