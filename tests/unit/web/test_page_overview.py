"""The overview: what it says of every version, that one broken part takes only itself away, and how long it takes."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from statistics import median

import pytest
from anabranch.apps.web import _lag, _pages
from anabranch.apps.web._dirty_days import Key, Lookup, LookupResult
from anabranch.apps.web._glossary import TERMS
from anabranch.apps.web._lag import Lag, Landing
from anabranch.compute.speed import status
from anabranch.compute.speed.status import ViewStatus
from anabranch.core.project_folder import project_root
from anabranch.core.settings import Settings
from anabranch.lake.layout import VersionRef, certificates_table, landing_table, routes_table
from anabranch.serve import table_snapshots
from anabranch.serve.retirement import drop, retire
from anabranch.serve.routes import set_route
from fastapi.testclient import TestClient
from support.page_data import DAYS, VIEW, at, certify, declare, kappa, land, publish, speed, text_of

from benchmarks.many_views import days_of_year, make_views

pytestmark = pytest.mark.unit


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """v1 with two of three published days equal, and v2 behind it."""
    declare(settings, VIEW, 1, 2)
    land(settings, 1, 2, 3)
    speed(settings, 3)
    speed(settings, 3, version=2)
    publish(settings, "run-a", DAYS[:3], 2)
    certify(settings, "run-a", DAYS[:3], 3, differs=[DAYS[2]])
    return settings


def seen(client: TestClient) -> str:
    answer = client.get("/anabranch/")
    assert answer.status_code == 200
    return text_of(answer.text)


def test_every_version_with_its_cut_its_readers_and_its_certificates(client: TestClient, settings: Settings) -> None:
    page = seen(client)
    assert "delays v1 flights@3 level 100 % 2 of 3" in page
    assert "v2 flights@3 level 0 %" in page
    set_route(settings, VIEW, {1: 75, 2: 25}, by="anna", why="first dashboards")
    page = seen(client)
    assert "v2 flights@3 level 25 %" in page
    assert "v1 flights@3 level 75 %" in page


def test_what_readers_have_comes_first_and_describes_the_view(client: TestClient, settings: Settings) -> None:
    folder = settings.project / "spark_jobs" / "views"
    text = (folder / f"{VIEW}.py").read_text()
    (folder / f"{VIEW}.py").write_text(text.replace("Delays by hour.", "The first one.", 1))
    for shares, order, doc in (({1: 75, 2: 25}, "v1 v2", "The first one."), ({2: 100}, "v2 v1", "Delays by hour.")):
        set_route(settings, VIEW, shares, by="anna", why="so")
        first, second = order.split()
        page = seen(client)
        assert page.index(f"{VIEW} {first} flights@3") < page.index(f" {second} flights@3")
        page = client.get(f"/anabranch/views/{VIEW}").text
        assert f"<p>{doc}</p>" in page
        assert page.index(f"<h2>{first} ") < page.index(f"<h2>{second} ")
        page = client.get(f"/anabranch/views/{VIEW}/replays").text
        assert page.index(f"<h2>{first}</h2>") < page.index(f"<h2>{second}</h2>")


def test_the_newest_certificate_holds(client: TestClient, settings: Settings) -> None:
    assert "2 of 3" in seen(client)
    certify(settings, "run-b", [DAYS[2]], 3)
    assert "3 of 3" in seen(client)


def test_how_far_behind_in_epochs_and_since_when(client: TestClient, settings: Settings) -> None:
    land(settings, 4, 5, 6)
    assert "v1 flights@3 3 epochs, 0 s" in seen(client)
    an_hour_later = Landing(settings, clock=lambda: time.time() + 3600)
    behind = an_hour_later.behind(at(3))
    assert (behind.epochs, behind.more) == (3, False)
    assert 3600 <= behind.seconds < 3660, "an hour, and what the machine took"


def test_far_behind_only_the_newest_commits_are_looked_through(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_lag, "_MOST", 2)
    land(settings, 4, 5, 6)
    assert replace(Landing(settings).behind(at(3)), seconds=0.0) == Lag(3, 0.0, more=True)


def test_a_stream_that_failed_says_why(client: TestClient, settings: Settings) -> None:
    broken = ViewStatus(VIEW, 2, "failed", cut="flights@2", error="ValueError: a <b>bad</b> row")
    status.write(settings, [ViewStatus(VIEW, 1, "running"), broken])
    page = client.get("/anabranch/").text
    assert "The stream of delays v2 has failed at flights@2" in text_of(page)
    assert "ValueError: a &lt;b&gt;bad&lt;/b&gt; row" in page
    assert "has said nothing" not in page


def test_a_file_of_declarations_that_cant_be_read_is_named(client: TestClient, settings: Settings) -> None:
    status.write(settings, [ViewStatus(VIEW, 1, "running"), status.unread("later.py", SyntaxError("<b>:"))])
    page = client.get("/anabranch/").text
    assert "later.py can't be read" in text_of(page)
    assert "SyntaxError: &lt;b&gt;:" in page


def test_a_speed_process_that_is_silent_is_not_believed(client: TestClient, settings: Settings) -> None:
    status.write(settings, [ViewStatus(VIEW, 1, "running")])
    an_hour_ago = time.time() - 3600
    os.utime(status.progress_file(settings), (an_hour_ago, an_hour_ago))
    assert "The speed process has said nothing for 1 h" in seen(client)


def test_a_kappa_view_is_one_whole(client: TestClient, settings: Settings) -> None:
    kappa(settings, 3, "aircraft_now")
    certify(settings, "run-k", [None], 3, view="aircraft_now")
    page = seen(client)
    assert "aircraft_now v1 not declared flights@3 level 100 % 1 of 1" in page
    assert "whole" in page


def break_table(uri: str) -> None:
    """As a server finds it that has just been started."""
    table_snapshots.forget(uri)
    newest = max(Path(uri, "_delta_log").glob("*.json"))
    newest.write_text("{ no json")


@pytest.mark.parametrize("half", ["speed", "routes"])
def test_a_broken_table_takes_no_other_view_away(client: TestClient, settings: Settings, half: str) -> None:
    speed(settings, 3, view="routes_by_day")
    set_route(settings, VIEW, {1: 100}, by="anna", why="so")
    break_table(VersionRef(settings, VIEW, 1).speed_table if half == "speed" else routes_table(settings, VIEW))
    page = seen(client)
    assert "can't be opened" in page
    assert "v2 flights@3" in page, "the other version went with it"
    assert "routes_by_day v1 not declared flights@3" in page, "another view went with it"


def test_a_stranger_in_a_table_is_named(client: TestClient, settings: Settings) -> None:
    from deltalake import DeltaTable, write_deltalake

    table = DeltaTable(VersionRef(settings, VIEW, 1).speed_table)
    write_deltalake(table, table.to_pyarrow_table(), mode="append")
    assert "COMMIT_UNNAMED" in seen(client)


@pytest.mark.parametrize("what", ["certificates", "landing"])
def test_what_all_views_share_may_be_broken_too(client: TestClient, settings: Settings, what: str) -> None:
    break_table(certificates_table(settings) if what == "certificates" else landing_table(settings, "flights"))
    page = seen(client)
    assert "delays" in page
    assert "can't be opened" in page


def test_a_progress_file_that_is_torn_costs_the_streams_only(client: TestClient, settings: Settings) -> None:
    status.write(settings, [])
    status.progress_file(settings).write_text('{"views": [')
    page = seen(client)
    assert "streams: JSONDecodeError" in page
    assert "v1 flights@3" in page


def test_tables_that_were_made_again_are_not_mixed_with_those_before(client: TestClient, settings: Settings) -> None:
    """As by a restore behind an open page: the new tables have as many commits as the old ones, or more."""
    assert "v1 flights@3 level 100 % 2 of 3" in seen(client)
    for uri in (certificates_table(settings), landing_table(settings, "flights")):
        shutil.rmtree(uri)
    land(settings, 1, 2, 3, 4, 5, 6, 7, 8)
    certify(settings, "run-a", DAYS[:1], 3)
    certify(settings, "run-c", DAYS[1:2], 3, differs=[DAYS[1]])
    assert "v1 flights@3 5 epochs, 0 s 100 % 1 of 2" in seen(client)


def test_before_there_is_anything(client: TestClient, settings: Settings) -> None:
    shutil.rmtree(settings.home)
    assert "delays v2 has no table yet" in seen(client)
    shutil.rmtree(settings.project)
    assert "No view is declared" in seen(client)


def test_dirty_days_are_shown_once_they_are_known(client: TestClient, settings: Settings) -> None:
    assert "being looked up" in seen(client)
    _pages.LOOKUP.wait(5)
    assert "being looked up" not in seen(client)


def test_late_events_in_no_half_are_counted_of_what_was_never_published_too(
    client: TestClient, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(VersionRef(settings, VIEW, 1).batch_table)
    asked = list[object]()

    def find(_: Settings, keys: Sequence[Key]) -> dict[Key, LookupResult]:
        asked.extend(keys)
        return {keys[0]: LookupResult({}, 1234)}

    monkeypatch.setattr(_pages, "LOOKUP", Lookup(find=find))
    seen(client)
    _pages.LOOKUP.wait(5)
    assert "1,234" in seen(client)
    assert (VIEW, 1) in asked


def test_a_retired_version_says_so_and_is_not_asked_for_dirty_days(
    client: TestClient, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_route(settings, VIEW, {2: 100}, by="anna", why="all of them", retired=[1])
    asked = list[object]()

    def find(_: Settings, keys: Sequence[Key]) -> dict[Key, LookupResult]:
        asked.extend(keys)
        return {}

    monkeypatch.setattr(_pages, "LOOKUP", Lookup(find=find))
    page = seen(client)
    assert "v1 retired flights@3 level 0 %" in page
    _pages.LOOKUP.wait(5)
    assert asked == [(VIEW, 2)]


def test_after_retire_and_drop_nothing_of_the_version_is_left_but_its_history(
    client: TestClient, settings: Settings
) -> None:
    ref = VersionRef(settings, VIEW, 1)
    set_route(settings, VIEW, {2: 100}, by="anna", why="all of them")
    retire(ref, by="bert", why="nobody reads it", grace=timedelta())
    page = client.get(f"/anabranch/views/{VIEW}").text
    assert "/dags/reprocess_delays.v1" not in page
    assert "/dags/reprocess_delays" in page
    readers = text_of(client.get(f"/anabranch/views/{VIEW}/migration").text)
    assert "A person leads the readers: v2 100 %, by anna: all of them" in readers, (
        "why they are there, not why v1 went"
    )
    assert "v2 100 %; v1 is retired bert nobody reads it" in readers
    drop(ref)
    for path in ("", f"views/{VIEW}", f"views/{VIEW}/replays"):
        page = client.get(f"/anabranch/{path}").text
        assert "v1" not in re.sub("<details.*</details>", "", page, flags=re.DOTALL), path
        assert "v2" in page
    gone = client.get(f"/anabranch/views/{VIEW}/v1/{DAYS[0]}")
    assert (gone.status_code, "v1 is retired, and its tables are deleted" in gone.text) == (404, True)


def test_the_words_of_the_pages_are_those_of_the_glossary(client: TestClient) -> None:
    rows = (
        line.split("|") for line in (project_root() / "docs" / "glossary.md").read_text().splitlines() if "|" in line
    )
    glossary = {cells[1].strip().partition(",")[0]: cells[2].strip() for cells in rows}
    assert {term: glossary.get(term) for term in TERMS} == dict(TERMS)
    page = text_of(client.get("/anabranch/").text)
    assert f"What the words mean cut {TERMS['cut']} level {TERMS['level']}" in page


def test_words_stand_apart_and_nothing_is_counted_where_there_is_none(client: TestClient, settings: Settings) -> None:
    page = text_of(client.get(f"/anabranch/views/{VIEW}").text)
    assert "Readers and migration no route" in page
    assert "Certificates none yet" in page
    assert "0 of 0" not in page


VIEWS, A_YEAR = 50, days_of_year()


@pytest.fixture
def many(settings: Settings) -> Settings:
    """Fifty views with a year of published, certified days."""
    make_views(settings, VIEWS)
    return settings


def test_fifty_views_and_a_year_in_less_than_a_second(
    many: Settings, client: TestClient, record_property: Callable[[str, object], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also the first time: its tables are opened while the server starts."""
    monkeypatch.setattr(_pages, "platform", lambda: many)
    _pages.warm.cache_clear()
    _pages.warm().join()
    taken = []
    for _ in range(4):
        begun = time.process_time()  # whatever else the machine does
        page = client.get("/anabranch/").text
        taken.append(time.process_time() - begun)
        assert page.count("365 of 365") == VIEWS
    first, later = taken[0], median(taken[1:])
    record_property("first_seconds", round(first, 2))
    record_property("later_seconds", round(later, 2))
    print(f"first {first:.2f} s, later {later:.2f} s")  # noqa: T201
    assert max(first, later) < 1.0
    begun = time.perf_counter()
    assert client.get("/anabranch/views/view_7").text.count('<rect class="equal"') == len(A_YEAR) + 1
    print(f"one view {time.perf_counter() - begun:.2f} s")  # noqa: T201


def test_certificates_are_read_once_however_many_views(
    settings: Settings, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    from anabranch.apps.web import _certificate_cache

    seen(client)
    monkeypatch.setattr(
        _certificate_cache, "_add_newest", lambda *_: pytest.fail("a file that was known was read again")
    )
    seen(client)
