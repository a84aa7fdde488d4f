"""Dirty days are looked up beside the server: nobody waits, one process at a time, and not again and again."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import pytest
from anabranch.apps.web import _dirty_days
from anabranch.apps.web._dirty_days import REST_SECONDS, Found, Key, Lookup, LookupResult, NewEvents, find_dirty
from anabranch.core.project_folder import project_root
from anabranch.core.settings import Settings

pytestmark = pytest.mark.unit
DAY = date(2013, 1, 1)
ONE: Key = ("delays", 1)
TWO: Key = ("routes", 1)


class Finder:
    """Answers when it is let; counts who is inside."""

    def __init__(self) -> None:
        self.asked: list[list[Key]] = []
        self.inside = self.most = 0
        self.free = threading.Event()
        self.free.set()

    def __call__(self, settings: Settings, keys: Sequence[Key]) -> Found:
        self.asked.append(sorted(keys))
        self.inside += 1
        self.most = max(self.most, self.inside)
        assert self.free.wait(10)
        self.inside -= 1
        days = {DAY: NewEvents(len(self.asked), 0, "flights@2")}
        return {key: LookupResult(days) for key in keys}


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def finder() -> Finder:
    return Finder()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lookup(finder: Finder, clock: Clock) -> Lookup:
    return Lookup(find=finder, clock=clock)


def test_the_first_page_does_not_wait_and_the_next_one_knows(
    lookup: Lookup, finder: Finder, settings: Settings
) -> None:
    finder.free.clear()
    told = lookup.ask(settings, {ONE: ("flights@3", 1)})[ONE]
    assert (told.looked, told.pending) == (None, True)
    finder.free.set()
    lookup.wait(5)
    told = lookup.ask(settings, {ONE: ("flights@3", 1)})[ONE]
    assert (dict(told.days), told.position, told.pending) == ({DAY: NewEvents(1, 0, "flights@2")}, "flights@3", False)
    assert told.looked is not None


def test_all_views_of_a_page_are_one_question_and_never_two_at_once(
    lookup: Lookup, finder: Finder, settings: Settings
) -> None:
    finder.free.clear()
    lookup.ask(settings, {ONE: ("flights@3", 1), TWO: ("flights@3", 1)})
    for _ in range(5):
        lookup.ask(settings, {ONE: ("flights@3", 1), TWO: ("flights@3", 1), ("third", 1): ("flights@3", 1)})
    finder.free.set()
    lookup.wait(5)
    assert finder.asked in ([[ONE, TWO], [("third", 1)]], [[ONE, TWO, ("third", 1)]])
    assert finder.most == 1


def test_an_answer_is_kept_until_something_lands_and_then_until_it_has_rested(
    lookup: Lookup, finder: Finder, clock: Clock, settings: Settings
) -> None:
    lookup.ask(settings, {ONE: ("flights@3", 1)})
    lookup.wait(5)
    clock.now += 10 * REST_SECONDS
    assert not lookup.ask(settings, {ONE: ("flights@3", 1)})[ONE].pending, "nothing has landed since"
    lookup._known[settings.home, ONE] = _dirty_days._Answer(
        lookup._known[settings.home, ONE].dirty, ("flights@3", 1), clock.now
    )  # it was found just now
    assert not lookup.ask(settings, {ONE: ("flights@4", 1)})[ONE].pending, "it was asked for a moment ago"
    clock.now += REST_SECONDS
    finder.free.clear()
    told = lookup.ask(settings, {ONE: ("flights@4", 1)})[ONE]
    assert (told.pending, told.position, dict(told.days)) == (True, "flights@3", {DAY: NewEvents(1, 0, "flights@2")})
    finder.free.set()
    lookup.wait(5)
    assert len(finder.asked) == 2


def test_whatever_goes_wrong_is_an_answer_too(settings: Settings) -> None:
    def fail(settings: Settings, keys: Sequence[Key]) -> Found:
        raise RuntimeError("no memory")

    lookup = Lookup(find=fail)
    lookup.ask(settings, {ONE: ("flights@3", 1)})
    lookup.wait(5)
    told = lookup.ask(settings, {ONE: ("flights@3", 1)})[ONE]
    assert (told.failed, told.pending) == ("no memory", False)
    lookup = Lookup(find=lambda settings, keys: {})
    lookup.ask(settings, {ONE: ("flights@3", 1)})
    lookup.wait(5)
    assert lookup.ask(settings, {ONE: ("flights@3", 1)})[ONE].failed == "no answer"


def test_a_lookup_that_failed_is_repeated_though_nothing_lands(
    lookup: Lookup, finder: Finder, clock: Clock, settings: Settings
) -> None:
    """A time-out, a broken definition that is right again: else the page shows it for ever."""
    answers: list[Found] = [{ONE: "it took longer than 180 s"}, {ONE: LookupResult()}]
    lookup.find = lambda *_: answers.pop(0)
    lookup.ask(settings, {ONE: ("flights@3", 1)})
    lookup.wait(5)
    clock.now += REST_SECONDS - 1
    failed = lookup.ask(settings, {ONE: ("flights@3", 1)})[ONE]
    assert (failed.failed, failed.pending) == ("it took longer than 180 s", False), "not at each page"
    clock.now += 1
    assert lookup.ask(settings, {ONE: ("flights@3", 1)})[ONE].pending
    lookup.wait(5)
    assert lookup.ask(settings, {ONE: ("flights@3", 1)})[ONE].failed == ""


def test_a_process_that_takes_too_long_is_ended(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings.project.mkdir(parents=True)
    monkeypatch.setattr(_dirty_days, "LIMIT_SECONDS", 0.01)
    assert find_dirty(settings, [ONE]) == {ONE: "it took longer than 0 s"}


def test_definitions_are_run_in_a_process_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The project's own views, before anything was published; what isn't declared is told apart from them."""
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", "a secret of Airflow's")
    settings = Settings(home=tmp_path, project=project_root())
    found = find_dirty(settings, [("departure_delays", 1), ("nothing", 1)])
    assert found["departure_delays", 1] == LookupResult()
    assert "nothing" in str(found["nothing", 1])


def test_an_author_learns_nothing_of_airflow_and_answers_nothing_for_us(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", "a secret of Airflow's")
    for folder in ("contracts", "views"):
        (settings.project / "spark_jobs" / folder).mkdir(parents=True)
    seen = tmp_path / "seen"
    (settings.project / "spark_jobs" / "views" / "hostile.py").write_text(
        "import json, os, pathlib\n"
        f"pathlib.Path({str(seen)!r}).write_text(json.dumps(dict(os.environ)))\n"
        "print(json.dumps({'view': 'delays', 'version': 1, 'days': [['2013-01-01', 1, 1, 'x']], 'failed': ''}))\n"
        "raise ValueError('a <bad> module')\n"
    )
    found = find_dirty(settings, [ONE])
    assert "bad" in str(found[ONE])
    assert "a secret" not in seen.read_text()
