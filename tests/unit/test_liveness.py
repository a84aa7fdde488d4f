"""A stream hangs when it is busy and makes no progress; one that has nothing to do, or much, doesn't."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial

import pytest
from anabranch.core.clocks import WallClock
from anabranch.core.engine.liveness import TIMES_FIRST, BackgroundAnswer, Batches, Stream, Watch, Watcher, seconds_of
from anabranch.core.errors import TryAgain
from anabranch.core.settings import Settings

pytestmark = pytest.mark.unit

LIMIT = 60.0
FIRST = LIMIT * TIMES_FIRST


@dataclass
class World:
    """One stream, and somebody who looks at it every two seconds of a clock that the test sets."""

    now: float = 0.0
    pending: Hashable = None
    engine: Hashable = 0
    rest: float = 0.0
    found: list[TryAgain] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.batches = Batches(lambda: self.now)
        stream = Stream("view/delays/v1", self.batches, lambda: self.pending, lambda: self.engine, self.rest)
        self.watcher = Watcher(lambda: [stream], self.found.append, LIMIT, lambda: self.now)
        self._open: AbstractContextManager[None] | None = None
        self.batch = -1

    def begins(self) -> None:
        self.batch += 1
        self._open = self.batches.processing(self.batch)
        self._open.__enter__()

    def ends(self) -> None:
        assert self._open is not None
        self._open.__exit__(None, None, None)

    def took(self, *seconds: float) -> World:
        """Micro-batches of so many seconds."""
        for each in seconds:
            self.begins()
            self.now += each
            self.ends()
        list(self.watcher.look())
        return self

    def hangs_after(self, most: float, each: Callable[[], None] = lambda: None) -> float | None:
        """Seconds from now until it is found; None when it isn't within ``most``."""
        begun = self.now
        while self.now - begun < most:
            self.now += self.watcher.every
            each()
            if found := list(self.watcher.look()):
                self.found = found
                return self.now - begun
        return None


def test_a_micro_batch_without_progress_is_found_within_the_limit_and_a_look() -> None:
    world = World().took(1, 1, 2)
    world.begins()
    found = world.hangs_after(2 * LIMIT)
    assert found is not None
    assert LIMIT <= found <= LIMIT + 2 * world.watcher.every
    error = world.found[0]
    assert (error.code, error.fields["stream"], error.fields["batch"]) == ("STREAM_HANGS", "view/delays/v1", 3)
    assert (error.fields["usual"], error.fields["seconds"] >= LIMIT) == (1, True)
    assert "view/delays/v1 is in micro-batch 3" in error.what


def test_a_stream_of_long_micro_batches_has_three_times_their_usual_time() -> None:
    world = World().took(40, 50, 40, 300)  # once it was paused
    assert world.batches.usual == 45
    world.begins()
    found = world.hangs_after(1_000)
    assert found is not None
    assert 135 <= found <= 135 + 2 * world.watcher.every


def test_new_data_without_a_micro_batch_is_found_too() -> None:
    world = World(rest=30).took(1)
    world.pending = "flights@7"
    found = world.hangs_after(2 * LIMIT)
    assert found is not None
    assert LIMIT + 30 <= found <= LIMIT + 30 + 2 * world.watcher.every  # it may rest between two of them
    assert world.found[0].fields["batch"] is None
    assert "has something new to read" in world.found[0].what


def test_an_idle_stream_does_not_hang_however_long_it_is_idle() -> None:
    world = World().took(1, 1)
    assert world.hangs_after(10_000) is None
    world.pending = "flights@7"  # what comes then has its whole time
    assert world.hangs_after(LIMIT - 5) is None


def test_a_stream_that_goes_on_does_not_hang_whatever_is_new() -> None:
    world = World().took(1)

    def goes_on() -> None:
        world.begins()
        world.ends()
        world.pending = "flights@7"  # always one epoch behind

    assert world.hangs_after(1_000, goes_on) is None


def test_a_long_micro_batch_is_left_in_peace_while_the_engine_does_anything_for_it() -> None:
    """A backlog: hours of records in one micro-batch of a stream that takes a second as a rule."""
    world = World().took(1, 1)
    world.begins()

    def task_ends() -> None:
        if world.now % 50 < world.watcher.every:
            world.engine = world.now

    assert world.hangs_after(10_000, task_ends) is None
    found = world.hangs_after(10_000)
    assert found is not None
    assert found <= LIMIT + 2 * world.watcher.every


def test_steps_outside_of_the_engine_are_progress() -> None:
    world = World().took(1)
    world.begins()

    def day_is_indexed() -> None:
        if world.now % 50 < world.watcher.every:
            world.batches.step()

    assert world.hangs_after(10_000, day_is_indexed) is None


def test_the_first_micro_batch_of_a_process_has_ten_times_as_long_without_progress() -> None:
    world = World()
    world.begins()
    found = world.hangs_after(2 * FIRST)
    assert found is not None
    assert FIRST <= found <= FIRST + 2 * world.watcher.every
    assert world.found[0].fields["usual"] is None

    starting = World(pending="nothing")
    assert starting.hangs_after(FIRST - 5) is None


def test_the_first_micro_batch_may_be_one_long_task_as_long_as_the_process_works() -> None:
    for share, found in ((0.9, False), (0.1, True)):
        used, batches, watch = [0.0], Batches(), Watch(LIMIT)
        stream = Stream("view/delays/v1", batches, lambda: None, lambda: 0, worked=partial(used.__getitem__, 0))
        hang = None
        with batches.processing(0):
            for _ in range(1_000):
                used[0] += 10 * share
                hang = hang or watch.look(stream, 10)
        assert (hang is not None) is found, share


@pytest.mark.parametrize("current", [True, False])
def test_a_pause_of_the_whole_process_is_no_hang(current: bool) -> None:
    """SIGSTOP for an hour, a laptop that sleeps: what was in hand goes on."""
    world = World(pending="flights@1").took(1)
    if current:
        world.begins()
    assert world.hangs_after(LIMIT / 2) is None
    world.now += 3_600
    assert not list(world.watcher.look())
    found = world.hangs_after(LIMIT)
    assert found is not None
    assert found >= LIMIT / 2 - 3 * world.watcher.every


def test_what_can_not_be_read_is_nothing_to_hang_over() -> None:
    def raises() -> Hashable:
        raise TryAgain("BROKER_UNREACHABLE", "away")

    watch, batches = Watch(LIMIT), Batches()
    stream = Stream("landing/flights", batches, raises, raises)
    assert not any(watch.look(stream, 10) for _ in range(1_000))
    with batches.processing(1):  # an engine that doesn't answer is no progress
        assert any(watch.look(stream, 10) for _ in range(1_000))


def test_a_failed_micro_batch_is_no_longer_in_hand_and_says_nothing_of_the_usual_time() -> None:
    batches = Batches()
    with pytest.raises(ZeroDivisionError), batches.processing(1):
        _ = 1 / 0
    assert (batches.current, batches.usual, batches.steps) == (None, None, 1)


def test_a_question_that_is_never_answered_keeps_nobody() -> None:
    answers = iter([7])
    released = threading.Event()

    def question() -> Hashable:
        found = next(answers, None)
        if found is None:
            released.wait(30)
        return found

    asked = BackgroundAnswer(question)
    assert until(lambda: asked() == 7)
    begun = time.monotonic()
    assert [asked() for _ in range(100)] == [7] * 100
    assert time.monotonic() - begun < 5
    released.set()


@pytest.fixture
def watcher() -> Iterator[tuple[Watcher, list[TryAgain], threading.Event]]:
    found, ended, batches = list[TryAgain](), threading.Event(), Batches()

    def end(hang: TryAgain) -> None:
        found.append(hang)
        ended.set()

    made = Watcher(lambda: [Stream("landing/flights", batches, lambda: 1, lambda: 1)], end, 0.02)
    yield made, found, ended
    made.stop()


def test_the_watcher_tells_once(watcher: tuple[Watcher, list[TryAgain], threading.Event]) -> None:
    made, found, ended = watcher
    made.start()
    assert ended.wait(30)
    time.sleep(0.3)
    assert [hang.code for hang in found] == ["STREAM_HANGS"]


def test_a_process_that_stays_when_its_clock_was_set_back_is_ended() -> None:
    world, wall = World(), [1_000.0]
    world.watcher.set_back = WallClock(lambda: wall[0] + world.now, lambda: world.now).set_back
    assert world.hangs_after(10 * LIMIT) is None
    wall[0] -= 86_400
    assert world.hangs_after(LIMIT / 2) is None, "it ends by itself"
    wall[0] += 86_400
    assert world.hangs_after(10 * LIMIT) is None, "the clock is as it was"
    wall[0] -= 86_400
    assert world.hangs_after(10 * LIMIT) == pytest.approx(LIMIT, abs=2 * world.watcher.every)
    assert [error.code for error in world.found] == ["CLOCK_SET_BACK"]
    assert "was set back by 86,400 s" in str(world.found[0])


def test_intervals_of_the_settings_are_seconds() -> None:
    assert [seconds_of(text) for text in ("0 seconds", "1 second", "500 milliseconds", "1.5 minutes", "2 hours")] == [
        0, 1, 0.5, 90, 7_200,
    ]  # fmt: skip
    assert Settings().hang_seconds == LIMIT


def until(reached: Callable[[], bool], seconds: float = 20) -> bool:
    deadline = time.monotonic() + seconds
    while not (found := reached()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return found
