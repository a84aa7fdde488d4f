"""Routes: shares by reader, sticky while they grow, back at once, recorded, and never an older cut."""

from __future__ import annotations

import getpass
import json
import os
import socket
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import anabranch
import pytest
from anabranch.apps.cli.main import app
from anabranch.core.errors import AnabranchError, BadInput, Conflict, TryAgain
from anabranch.core.settings import Settings, user_at_host
from anabranch.serve import routes
from anabranch.serve._reader_places import first_places, from_runs, next_places, to_runs
from anabranch.serve.routes import Route, route_history, route_of, set_route
from hypothesis import HealthCheck, given
from hypothesis import settings as on_a_busy_machine
from hypothesis import strategies as st
from support import small_halves
from support.small_halves import DAYS, VIEW
from typer.testing import CliRunner

pytestmark = pytest.mark.unit
READERS = [f"dashboard-{n}" for n in range(2_000)]


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Two versions at one cut; a change of the route waits less long than it does in earnest."""
    monkeypatch.setattr(routes, "PATIENCE", 0.3)
    settings = Settings(home=tmp_path)
    small_halves.start_speed(settings, 3)
    small_halves.start_speed(settings, 3, version=2)
    return settings


def lead(settings: Settings, *shares: int, after: int | None = None) -> Route:
    named = dict(enumerate(shares, 1))
    return set_route(settings, VIEW, named, by="anna", why=f"{shares}", after=after)


def version_of(settings: Settings, reader: str) -> int:
    return anabranch.read(VIEW, settings=settings, reader=reader).version


def gets(reader: str, *shares: int) -> int:
    """The version that a reader would get, by the route alone."""
    return Route(VIEW, 1, dict(enumerate(shares, 1)), datetime.now(UTC), "", "").version_for(reader)


def test_readers_move_by_share_and_stay_as_it_grows() -> None:
    moved: set[str] = set()
    for share in (1, 5, 25, 50, 100):
        now = {reader for reader in READERS if gets(reader, 100 - share, share) == 2}
        assert moved <= now, "a reader lost the version that it had"
        assert abs(len(now) / len(READERS) * 100 - share) < 3
        moved = now


VERSIONS = st.integers(1, 4)
SHARES = st.lists(st.tuples(VERSIONS, st.integers(1, 100)), min_size=1, max_size=4).map(
    lambda parts: whole(dict(parts))
)


def whole(weights: dict[int, int]) -> dict[int, int]:
    """Shares in these proportions, 100 in all."""
    total = sum(weights.values())
    shares = {version: weight * 100 // total for version, weight in weights.items()}
    shares[max(shares)] += 100 - sum(shares.values())
    return {version: share for version, share in shares.items() if share}


@on_a_busy_machine(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(SHARES, min_size=2, max_size=6))
def test_who_has_a_version_whose_share_only_grows_keeps_it_whatever_the_others_do(steps: list[dict[int, int]]) -> None:
    places, before = first_places(steps[0]), steps[0]
    for shares in steps[1:]:
        now = next_places(places, shares)
        assert Counter(now) == shares
        moved = [had for had, has in zip(places, now, strict=True) if had != has]
        assert Counter(moved) == {v: lost for v in before if (lost := before[v] - shares.get(v, 0)) > 0}
        assert from_runs(to_runs(now)) == now
        places, before = now, shares


@on_a_busy_machine(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(0, 100), min_size=1, max_size=6))
def test_of_two_versions_the_newer_one_always_has_the_first_readers(steps: list[int]) -> None:
    places = first_places({1: 100})
    for share in steps:
        shares = {version: part for version, part in {1: 100 - share, 2: share}.items() if part}
        places = next_places(places, shares)
        assert places == first_places(shares)


def test_a_third_version_moves_nobody_whose_version_keeps_its_share(settings: Settings) -> None:
    small_halves.start_speed(settings, 3, version=3)
    lead(settings, 50, 50)
    before = {reader: version_of(settings, reader) for reader in READERS[:200]}
    lead(settings, 40, 50, 10)
    after = {reader: version_of(settings, reader) for reader in READERS[:200]}
    assert {(before[r], after[r]) for r in before} == {(1, 1), (2, 2), (1, 3)}
    lead(settings, 50, 50)
    assert {reader: version_of(settings, reader) for reader in before} == before
    lead(settings, 25, 50, 25)
    retire = set_route(settings, VIEW, {1: 25, 2: 50, 3: 25}, by="anna", why="another record of the same shares")
    assert {retire.version_for(r) for r in before if before[r] == 2} == {2}


def test_a_third_version_takes_its_readers_from_both() -> None:
    found = [gets(reader, 40, 40, 20) for reader in READERS]
    assert [round(found.count(version) / len(found), 1) for version in (1, 2, 3)] == [0.4, 0.4, 0.2]


def test_a_read_obeys_the_route_that_is_there_when_it_begins(settings: Settings) -> None:
    assert {version_of(settings, reader) for reader in READERS[:50]} == {1}
    lead(settings, 50, 50)
    assert {version_of(settings, reader) for reader in READERS[:50]} == {1, 2}
    lead(settings, 100, 0)
    assert {version_of(settings, reader) for reader in READERS[:50]} == {1}
    assert anabranch.read(VIEW, version=2, settings=settings).version == 2, "who names a version gets it"


def test_a_process_has_a_name_of_its_own_or_a_given_one(settings: Settings) -> None:
    route = lead(settings, 50, 50)
    assert anabranch.read(VIEW, settings=settings).version == route.version_for(user_at_host())
    for reader in READERS[:20]:
        named = settings.model_copy(update={"reader": reader})
        assert anabranch.read(VIEW, settings=named).version == route.version_for(reader)


def test_a_user_without_a_name_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 4711")

    monkeypatch.setattr(getpass, "getuser", nameless)
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    assert user_at_host.__wrapped__() == f"uid-4711@{socket.gethostname()}"


def test_each_change_is_kept_with_who_when_and_why(settings: Settings) -> None:
    made = [lead(settings, 99, 1), lead(settings, 75, 25), lead(settings, 100)]
    assert route_history(settings, VIEW) == made
    assert route_of(settings, VIEW) == made[-1]
    assert [(r.number, dict(r.shares), r.changed_by, r.why) for r in made] == [
        (1, {1: 99, 2: 1}, "anna", "(99, 1)"),
        (2, {1: 75, 2: 25}, "anna", "(75, 25)"),
        (3, {1: 100}, "anna", "(100,)"),
    ]


def test_of_two_changes_after_one_route_one_is_refused(settings: Settings) -> None:
    lead(settings, 99, 1, after=0)
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda share: _answer(settings, share), (5, 25, 50, 100)))
    assert sorted(answers) == ["ROUTE_MOVED"] * 3 + ["made"]
    assert [route.number for route in route_history(settings, VIEW)] == [1, 2]


def _answer(settings: Settings, share: int) -> str:
    try:
        lead(settings, 100 - share, share, after=1)
    except Conflict as conflict:
        return conflict.code
    return "made"


def test_changes_at_once_are_all_kept_when_none_was_decided_upon_another(settings: Settings) -> None:
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda share: lead(settings, 100 - share, share), (1, 2, 3)))
    assert [route.number for route in route_history(settings, VIEW)] == [1, 2, 3]


def test_a_person_can_not_send_readers_to_a_newer_version_that_is_behind(settings: Settings) -> None:
    lead(settings, 50, 50)
    small_halves.merge_speed(settings, 4, DAYS[:1])
    with pytest.raises(TryAgain) as refused:
        lead(settings, 0, 100)
    assert refused.value.code == "VERSION_BEHIND"
    small_halves.merge_speed(settings, 4, DAYS[:1], version=2)
    lead(settings, 0, 100)
    assert {version_of(settings, reader) for reader in READERS[:20]} == {2}


def test_the_way_back_is_open_whatever_the_lag(settings: Settings) -> None:
    lead(settings, 0, 100)
    small_halves.merge_speed(settings, 9, DAYS[:1], version=2)
    assert dict(lead(settings, 100).shares) == {1: 100}


@pytest.mark.parametrize(
    ("shares", "why", "code"),
    [
        ({1: 60, 2: 50}, "x", "SHARES_WRONG"),
        ({1: 130, 2: -30}, "x", "SHARES_WRONG"),
        ({}, "x", "SHARES_WRONG"),
        ({1: 0, 2: 100}, " ", "REASON_MISSING"),
        ({1: 50, 9: 50}, "x", "VIEW_UNKNOWN"),
    ],
)
def test_what_can_not_be_a_route_moves_nobody(settings: Settings, shares: dict[int, int], why: str, code: str) -> None:
    with pytest.raises(AnabranchError) as refused:
        set_route(settings, VIEW, shares, by="anna", why=why)
    assert refused.value.code == code
    assert route_of(settings, VIEW) is None


def test_a_name_that_is_no_view_makes_no_table(settings: Settings) -> None:
    with pytest.raises(BadInput):
        set_route(settings, "../x", {1: 100}, by="anna", why="x")
    with pytest.raises(BadInput):
        set_route(settings, "nothing", {1: 100}, by="anna", why="x")
    assert not (settings.lake / "routes").exists()


def test_the_commands(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANABRANCH_HOME", str(settings.home))

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(app, ["routes", *arguments])
        return result.stdout if result.exit_code == 0 else result.stderr

    assert "no route: all readers get v1" in run("show", VIEW)
    assert "v1 75 %, v2 25 %" in run("set", VIEW, "1=75", "2=25", "--why", "a first quarter", "--by", "anna")
    assert "by anna: a first quarter" in run("history", VIEW)
    shown = json.loads(run("show", VIEW, "--reader", "dashboard-1", "--json"))
    assert shown["route"]["shares"] == {"1": 75, "2": 25}
    assert shown["version"] in (1, 2)
    for wrong in (["1=75"], ["1=1", "1=99"], ["1:100"], ["1=1e2"], ["x"], ["1=\u0661"]):
        assert "[SHARES_WRONG]" in run("set", VIEW, *wrong, "--why", "x")
    assert "[ROUTE_MOVED]" in run("set", VIEW, "1=100", "--why", "x", "--after", "0")
