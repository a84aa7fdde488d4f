"""Readers that are sent to another version stay at the newest cut that they have seen until the other one covers it,
and are back within five seconds, whatever the lag. In real time, and a hundred times by a clock of the test's own."""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import anabranch
import pytest
from anabranch.change.migrate.migration import advance, rollback, start
from anabranch.change.migrate.migration_record import Migration
from anabranch.change.migrate.promotion_checks import Expectations
from anabranch.core import clocks
from anabranch.core.errors import AnabranchError, BadInput, TryAgain
from anabranch.core.settings import Settings
from anabranch.lake.layout import VersionRef
from anabranch.serve import read_plan
from anabranch.serve.reader_log import behind_reads, failed_reads
from anabranch.serve.routes import route_of, set_route
from anabranch.views import View
from support import small_halves
from support.small_halves import DAYS, VIEW

pytestmark = pytest.mark.unit
OLD, NEW = (
    View(VIEW, version, ("flight.departed",), ("window_start",), lambda rows: rows, partition_by="window_start")
    for version in (1, 2)
)
LAGS = (0.2, 1.4, 2.5, 4.5, 20.0)
TIMES = [(0, 1), *(pytest.param(seed, 10, marks=pytest.mark.sweep) for seed in range(1, 11))]
PROMISE = Expectations(changed=("written_by",), compared=False, behind=1_000)


@dataclass
class Clock:
    """A monotonic clock that only the test moves."""

    now: float = 1_000.0

    def monotonic(self) -> float:
        return self.now

    def __getattr__(self, name: str) -> object:
        return getattr(time, name)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    for module in (clocks, read_plan):
        monkeypatch.setattr(module, "time", made)
    return made


def platform(home: Path) -> Settings:
    settings = Settings(home=home)
    for version in (1, 2):
        small_halves.start_speed(settings, 1, DAYS[:1], version=version)
    return settings


def moved(settings: Settings, share: int) -> Migration:
    """A migration whose first step has given v2 its share."""
    start(settings, OLD, NEW, by="anna", why="test", steps=sorted({share, 100}), soak_seconds=3600, promise=PROMISE)
    return advance(settings, OLD, NEW, by="test")


def reader_of(settings: Settings, version: int, share: int) -> str:
    """A name that the share of v2 gives ``version``."""
    from anabranch.serve.routes import Route

    route = route_of(settings, VIEW)
    assert route is not None
    made = Route(VIEW, 1, {1: 100 - share, 2: share}, route.changed_at, "", "")
    return next(name for n in count() if made.version_for(name := f"r{n}") == version)


@dataclass
class Seen:
    """What one reader saw, read after read; it fails at once where a promise is broken."""

    settings: Settings
    name: str
    epoch: int = 0
    versions: list[int] = field(default_factory=list)
    behind: int = 0

    def read(self) -> anabranch.Reading:
        reading = anabranch.read(VIEW, settings=self.settings, reader=self.name)
        epoch = reading.cut.epoch("flights")
        values = set(reading.to_arrow()["written_by"].to_pylist()) - {None}
        assert len(values) == 1, f"a mixture: {values}"
        assert reading.halves == {DAYS[0]: "speed"}
        if reading.behind is None:
            assert epoch >= self.epoch, f"an older cut than {self.epoch}, and not said so: {epoch}"
        else:
            assert epoch < reading.behind.epoch("flights") == self.epoch
            assert reading.version == 1, "only a rollback may show an older cut"
            self.behind += 1
        self.epoch = max(self.epoch, epoch)
        self.versions.append(reading.version)
        return reading


# Simulated: what both streams have covered, and what the reader gets, follow from the test's own clock alone.


@pytest.mark.parametrize("lag", LAGS)
@pytest.mark.parametrize(("seed", "times"), TIMES)
def test_a_rollback_reaches_each_reader_in_five_seconds_by_a_simulated_clock(
    tmp_path: Path, clock: Clock, lag: float, seed: int, times: int
) -> None:
    """Rollbacks at random moments between two epochs; v1 lags behind v2."""
    settings, chance, epochs = platform(tmp_path), random.Random(seed), {1: 1, 2: 1}
    begun = clock.now

    def pass_time(seconds: float) -> None:
        clock.now += seconds
        for version, behind in ((1, lag), (2, 0.0)):
            epoch = 1 + int(max(0.0, clock.now - begun - behind))
            if epoch > epochs[version]:
                small_halves.merge_speed(settings, epoch, DAYS[:1], version=version)
                epochs[version] = epoch

    moved(settings, 50)
    reader = Seen(settings, reader_of(settings, 2, 50))
    for _ in range(times):
        for _ in range(3):
            pass_time(chance.uniform(0.3, 1.2) + lag / 3)
            assert reader.read().version == 2
        rollback(settings, VIEW, by="oncall", why="v2 is wrong")
        back_at, caught_up = clock.now, reader.epoch
        while True:
            reading = reader.read()
            if reading.version == 1:
                break
            assert reading.cut.epoch("flights") == caught_up, "it went on with the version that is left"
            pass_time(0.25)
        assert clock.now - back_at <= read_plan.BACK_SECONDS + 0.25
        assert (reading.behind is None) == (epochs[1] >= caught_up)
        while reading.behind is not None:
            with pytest.raises(TryAgain, match="covers"):
                anabranch.read(VIEW, settings=settings, reader=reader.name, at_least=reading.behind)
            pass_time(1.0)
            reading = reader.read()
            assert reading.version == 1
        assert failed_reads(VersionRef(settings, VIEW, 1)) == failed_reads(VersionRef(settings, VIEW, 2)) == []
        moved(settings, 50)
        while reader.read().version == 1:
            pass_time(0.5)


@pytest.mark.parametrize("lag", LAGS)
@pytest.mark.parametrize(("seed", "times"), TIMES)
def test_a_step_forward_is_done_when_each_reader_could_follow_by_a_simulated_clock(
    tmp_path: Path, clock: Clock, lag: float, seed: int, times: int
) -> None:
    """Migrations; v2 lags behind v1. Nobody gets an older cut, and no step soaks before all could follow."""
    settings, chance, epochs = platform(tmp_path), random.Random(seed), {1: 1, 2: 1}
    begun = clock.now

    def pass_time(seconds: float) -> None:
        clock.now += seconds
        for version, behind in ((1, 0.0), (2, lag)):
            epoch = 1 + int(max(0.0, clock.now - begun - behind))
            if epoch > epochs[version]:
                small_halves.merge_speed(settings, epoch, DAYS[:1], version=version)
                epochs[version] = epoch

    reader = Seen(settings, "")
    for turn in range(times):
        start(settings, OLD, NEW, by="anna", why="test", steps=(50, 100), soak_seconds=3600, promise=PROMISE)
        reader.name = reader_of(settings, 2, 50)
        for _ in range(3):
            pass_time(chance.uniform(0.3, 1.2) + lag / 3)
            assert reader.read().version == 1
        assert advance(settings, OLD, NEW, by="test").share == 50
        moved_at, seen = clock.now, reader.epoch
        while (reading := reader.read()).version == 1:
            assert reading.cut.epoch("flights") == seen, "it went on with the version that is left"
            with pytest.raises(TryAgain) as waits:
                advance(settings, OLD, NEW, by="test")
            assert waits.value.code == "READERS_FOLLOW"
            pass_time(0.25)
        assert clock.now - moved_at <= lag + 1.5
        with pytest.raises(TryAgain) as waits:
            advance(settings, OLD, NEW, by="test")
        assert waits.value.code == "SOAKING", f"turn {turn}"
        assert reader.behind == 0
        rollback(settings, VIEW, by="anna", why="once more")
        assert reader.read().version == 1
    assert failed_reads(VersionRef(settings, VIEW, 1)) == failed_reads(VersionRef(settings, VIEW, 2)) == []


# In real time: threads write, one reads each 20 ms.


@dataclass
class Polled:
    reads: list[tuple[float, int]]
    reader: Seen
    errors: list[BaseException]


@pytest.fixture
def live(tmp_path: Path, lags: dict[int, float]) -> Iterator[tuple[Settings, Polled]]:
    """Both versions commit twice a second, each so far behind; a reader of v2 reads each 20 ms."""
    settings, stop, begun = platform(tmp_path), threading.Event(), time.monotonic()
    start(settings, OLD, NEW, by="anna", why="test", steps=(50, 100), soak_seconds=0, promise=PROMISE)
    polled = Polled([], Seen(settings, reader_of(settings, 2, 50)), [])

    def stream(version: int) -> None:
        done = 1
        while not stop.wait(0.02):
            epoch = 1 + int(max(0.0, time.monotonic() - begun - lags[version]) / 0.5)
            if epoch > done:
                small_halves.merge_speed(settings, epoch, DAYS[:1], version=version)
                done = epoch

    def poll() -> None:
        try:
            while not stop.wait(0.02):
                reading = polled.reader.read()
                polled.reads.append((time.monotonic(), reading.version))
        except BaseException as error:
            polled.errors.append(error)

    threads = [threading.Thread(target=stream, args=(v,)) for v in lags] + [threading.Thread(target=poll)]
    for thread in threads:
        thread.start()
    yield settings, polled
    stop.set()
    for thread in threads:
        thread.join()
    assert polled.errors == []
    assert failed_reads(VersionRef(settings, VIEW, 1)) == failed_reads(VersionRef(settings, VIEW, 2)) == []


def five_times(behind: int, once: float) -> list[Any]:
    """Each lag of version ``behind``, five times; the lag ``once`` is tried once in each test run, the rest in the
    sweep."""
    return [
        pytest.param(
            {behind: lag, 3 - behind: 0.2}, id=f"{lag}s-{n}", marks=() if (lag, n) == (once, 0) else pytest.mark.sweep
        )
        for lag in LAGS
        for n in range(5)
    ]


@pytest.mark.parametrize("lags", five_times(1, once=2.5))
def test_back_in_real_time(live: tuple[Settings, Polled], lags: dict[int, float]) -> None:
    settings, polled = live
    advance(settings, OLD, NEW, by="test")
    _until(lambda: any(version == 2 for _, version in polled.reads[-1:]), 30)
    time.sleep(lags[1] + 1)
    begun = time.monotonic()
    rollback(settings, VIEW, by="oncall", why="v2 is wrong")
    assert time.monotonic() - begun < 3, "a rollback waited"
    time.sleep(6)
    assert max(at for at, version in polled.reads if version == 2) - begun < 5
    if lags[1] > 6:
        assert polled.reader.behind > 50
        assert sum(each.count for each in behind_reads(VersionRef(settings, VIEW, 1))) > 50, (
            "readings that are behind are counted"
        )


@pytest.mark.parametrize("lags", five_times(2, once=1.4))
def test_forward_in_real_time(live: tuple[Settings, Polled], lags: dict[int, float]) -> None:
    """A good version 2 that is behind takes every step, and doesn't roll itself back."""
    settings, polled = live
    time.sleep(2)
    until = time.monotonic() + 2 * lags[2] + 20
    while True:
        state = _advanced(settings)
        assert state in ("READERS_FOLLOW", "moving", "done"), route_of(settings, VIEW)
        if state == "done":
            break
        time.sleep(0.1)
        assert time.monotonic() < until
    assert polled.reader.behind == 0
    assert polled.reads[-1][1] == 2


def _advanced(settings: Settings) -> str:
    try:
        return advance(settings, OLD, NEW, by="test").state
    except TryAgain as wait:
        return wait.code


def _until(true: Callable[[], object], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it didn't come"
        time.sleep(0.02)


# What there is beside lags.


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return platform(tmp_path)


def test_a_reader_whose_old_version_is_gone_gets_the_new_one_and_is_told(settings: Settings) -> None:
    small_halves.merge_speed(settings, 4, DAYS[:1])
    assert anabranch.read(VIEW, settings=settings, reader="r").cut == small_halves.cut_at(4)
    small_halves.merge_speed(settings, 4, DAYS[:1], version=2)
    set_route(settings, VIEW, {2: 100}, by="a", why="b")
    shutil.rmtree(VersionRef(settings, VIEW, 1).speed_table)
    small_halves.merge_speed(settings, 5, DAYS[:1], version=2)
    reading = anabranch.read(VIEW, settings=settings, reader="r")
    assert (reading.version, reading.cut, reading.behind) == (2, small_halves.cut_at(5), None)


def test_a_reader_that_is_led_to_an_emptied_version_stays_and_the_migration_comes_back(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = VersionRef(settings, VIEW, 2)
    from anabranch.lake import CommitMetadata
    from anabranch.lake.commits import create
    from anabranch.lake.cut import Cut

    start(settings, OLD, NEW, by="anna", why="test", steps=(50, 100), soak_seconds=0, promise=PROMISE)
    led, name = anabranch.read, reader_of(settings, 2, 50)
    assert led(VIEW, settings=settings, reader=name).version == 1
    advance(settings, OLD, NEW, by="test")
    uri = ref.speed_table
    shutil.rmtree(uri)
    create(uri, small_halves.SPEED_SCHEMA, ["partition_date"], CommitMetadata("view/delays/v2/speed", "create", Cut()))
    reading = led(VIEW, settings=settings, reader=name)
    assert (reading.version, reading.to_arrow().num_rows) == (1, small_halves.KEYS)
    assert [each.code for each in failed_reads(ref)] == ["VIEW_NOT_READY"]
    assert advance(settings, OLD, NEW, by="test").state == "rolled back"


def test_a_check_that_can_not_be_made_has_failed_after_two_minutes(settings: Settings, clock: Clock) -> None:
    from anabranch.lake import CommitMetadata
    from anabranch.lake.commits import create
    from anabranch.lake.cut import Cut

    moved(settings, 50)
    uri = VersionRef(settings, VIEW, 2).speed_table
    shutil.rmtree(uri)
    create(uri, small_halves.SPEED_SCHEMA, ["partition_date"], CommitMetadata("view/delays/v2/speed", "create", Cut()))
    for seconds in (0, 60, 59):
        clock.now += seconds
        with pytest.raises(TryAgain, match="no micro-batch"):
            advance(settings, OLD, NEW, by="test")
    clock.now += 2
    assert advance(settings, OLD, NEW, by="test").state == "rolled back"
    route = route_of(settings, VIEW)
    assert route is not None
    assert "a check couldn't run for 121 s: no micro-batch of delays" in route.why


def test_a_wall_clock_that_is_set_does_not_end_a_soak(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    import datetime as moments

    moved(settings, 50)
    with pytest.raises(TryAgain) as waits:
        advance(settings, OLD, NEW, by="test")
    assert waits.value.fields["seconds"] > 3500

    class Tomorrow(moments.datetime):
        @classmethod
        def now(cls, tz: moments.tzinfo | None = None) -> Tomorrow:
            return super().now(tz) + moments.timedelta(days=1)

    monkeypatch.setattr("anabranch.serve.read_plan.datetime", Tomorrow)
    monkeypatch.setattr(time, "time", lambda: moments.datetime.now(moments.UTC).timestamp() + 86_400)
    with pytest.raises(TryAgain) as waits:
        advance(settings, OLD, NEW, by="test")
    assert (waits.value.code, waits.value.fields["seconds"] > 3500) == ("SOAKING", True)


def test_a_position_is_waited_for(settings: Settings) -> None:
    with pytest.raises(TryAgain) as early:
        anabranch.read(VIEW, settings=settings, at_least="flights@4")
    assert (early.value.code, early.value.fields["cut"]) == ("CUT_NOT_REACHED", "flights@1")
    writer = threading.Timer(0.3, small_halves.merge_speed, (settings, 4, DAYS[:1]))
    writer.start()
    assert anabranch.read(VIEW, settings=settings, at_least="flights@4", wait_seconds=10).cut == small_halves.cut_at(4)
    writer.join()
    with pytest.raises(BadInput) as wrong:
        anabranch.read(VIEW, settings=settings, at_least="weather@4")
    assert wrong.value.code == "TOPIC_UNKNOWN"
    with pytest.raises(AnabranchError, match="is no cut"):
        anabranch.read(VIEW, settings=settings, at_least="flights:4")


def test_a_migration_that_is_started_again_at_once_keeps_nobody_at_the_version_that_is_left(
    settings: Settings, clock: Clock
) -> None:
    moved(settings, 50)
    reader = Seen(settings, reader_of(settings, 2, 50))
    small_halves.merge_speed(settings, 9, DAYS[:1], version=2)
    assert reader.read().version == 2
    rollback(settings, VIEW, by="oncall", why="v2 is wrong")
    start(settings, OLD, NEW, by="anna", why="again", steps=(50, 100), soak_seconds=0, promise=PROMISE)
    clock.now += read_plan.BACK_SECONDS
    reading = reader.read()
    assert (reading.version, reading.behind) == (1, small_halves.cut_at(9))
