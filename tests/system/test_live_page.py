"""Open pages follow what happens, in a real Chromium: what a person has typed, focused or selected stays, and a button
that comes too late says what has changed. The pages' own application, without the rest of Airflow."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from anabranch.apps.web import _render
from anabranch.change.migrate.migration import advance, halt, rollback
from anabranch.change.migrate.migration_record import migration_of
from anabranch.change.replay.rate_limit import Pace
from anabranch.change.replay.state import ReplayState, read_control, write_state
from anabranch.core.settings import Settings
from anabranch.serve import routes
from anabranch.serve.routes import route_history
from fastapi import FastAPI
from fastapi.responses import HTMLResponse
from playwright.sync_api import Page, expect
from support.browser import browsing, chromium
from support.page_app import Become, mount, serving
from support.page_data import DAYS, NEW, OLD, VIEW, begin_migration, land, publish

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(600),
    pytest.mark.skipif(chromium() is None, reason="no Chromium on PATH: run infra/chromium.sh as root, or install one"),
]
REASON = "the numbers of JFK look odd"
SLOW_PAGES = """
const plain = window.fetch;
window.fetch = async (address, options) => {
  if (options?.method !== "POST") await new Promise((done) => setTimeout(done, 1000));
  return plain(address, options);
};
"""
EVIL = "<form method=post action={}><input name=action value=rollback><input name=why value=evil></form>"


@pytest.fixture(scope="module")
def browser_page() -> Iterator[Page]:
    with browsing() as page:
        expect.set_options(timeout=10_000)
        page.set_default_timeout(10_000)
        yield page


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """5 % of the readers have v2."""
    monkeypatch.setattr(_render, "REFRESH_SECONDS", 0.3)
    monkeypatch.setattr(routes, "PATIENCE", 0.3)
    settings = Settings(home=tmp_path / "home", project=tmp_path / "project")
    begin_migration(settings)
    return settings


@pytest.fixture
def server(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> tuple[FastAPI, Become]:
    server, become = mount(settings, monkeypatch)
    become("USER")
    return server, become


@pytest.fixture
def address(server: tuple[FastAPI, Become]) -> Iterator[str]:
    with serving(server[0]) as address:
        yield f"{address}/anabranch"


@pytest.fixture
def page(browser_page: Page, address: str) -> Iterator[Page]:
    """A window whose console has said nothing: no script has failed, and the policy has forbidden nothing."""
    said: list[str] = []
    browser_page.on("console", lambda message: said.append(message.text))
    browser_page.on("pageerror", lambda error: said.append(str(error)))
    yield browser_page
    browser_page.goto("about:blank")
    assert [text for text in said if "Failed to load resource" not in text] == []


def opened(page: Page, address: str) -> None:
    """A page that remembers that it was not loaded again."""
    page.goto(address)
    page.evaluate("window.before = true")


def is_the_same(page: Page) -> bool:
    return bool(page.evaluate("window.before === true"))


def migration_page(page: Page, address: str) -> None:
    opened(page, f"{address}/views/{VIEW}/migration")
    expect(page.locator("#standing")).to_contain_text("5 % have v2")


def test_a_step_and_new_events_and_a_day_are_seen_without_a_reload(
    page: Page, address: str, settings: Settings
) -> None:
    migration_page(page, address)
    advance(settings, OLD, NEW, by="run move-1")
    expect(page.locator("#standing")).to_contain_text("25 % have v2")
    expect(page.locator("#route-4")).to_contain_text("v1 75 %, v2 25 %")
    assert is_the_same(page)

    opened(page, f"{address}/")
    expect(page.locator(f"#{VIEW}-v1")).to_contain_text("level")
    land(settings, 4, 5)
    expect(page.locator(f"#{VIEW}-v1")).to_contain_text("2 epochs")
    assert is_the_same(page)

    opened(page, f"{address}/views/{VIEW}")
    day = page.locator(f"#v1-{DAYS[1]} rect")
    expect(day).to_have_class("speed")
    publish(settings, "run-a", [DAYS[1]], 3)
    expect(day).to_have_class("published")
    assert is_the_same(page)


def test_what_is_typed_focused_and_scrolled_stays(page: Page, address: str, settings: Settings) -> None:
    page.set_viewport_size({"width": 900, "height": 420})
    migration_page(page, address)
    page.get_by_label("Why").fill(REASON)
    page.evaluate("document.getElementById('why').setSelectionRange(4, 11)")
    page.evaluate("window.scrollTo(0, 240)")
    for share in (25, 50):
        advance(settings, OLD, NEW, by="run move-1")
        expect(page.locator("#standing")).to_contain_text(f"{share} % have v2")
        assert page.get_by_label("Why").input_value() == REASON
        assert page.evaluate("[why.selectionStart, why.selectionEnd, document.activeElement.id, scrollY]") == [
            4, 11, "why", 240,
        ]  # fmt: skip
    page.set_viewport_size({"width": 1280, "height": 800})


def test_what_is_selected_stays_as_it_is(page: Page, address: str, settings: Settings) -> None:
    migration_page(page, address)
    page.evaluate("getSelection().selectAllChildren(document.querySelector('#route-2 td'))")
    selected = page.evaluate("String(getSelection())")
    assert selected
    advance(settings, OLD, NEW, by="run move-1")
    expect(page.locator("#route-4")).to_be_visible()
    assert page.evaluate("String(getSelection())") == selected
    page.evaluate("getSelection().selectAllChildren(document.getElementById('standing'))")
    halt(settings, VIEW, by="bert", why="lunch")
    expect(page.locator("#route-5")).to_be_visible()
    expect(page.locator("#standing")).to_contain_text("moving")
    page.evaluate("getSelection().empty()")
    expect(page.locator("#standing")).to_contain_text("halted")


def test_a_button_that_comes_too_late_keeps_the_reason_and_says_what_has_changed(
    page: Page, address: str, settings: Settings
) -> None:
    migration_page(page, address)
    page.get_by_label("Why").fill(REASON)
    advance(settings, OLD, NEW, by="run move-1")
    expect(page.locator("#standing")).to_contain_text("25 % have v2")
    page.evaluate(SLOW_PAGES)
    page.get_by_role("button", name="Go on now").click()
    refused = page.locator("#refused")
    expect(refused).to_contain_text("it was v1 95 %, v2 5 %, then v1 75 %, v2 25 % (by run move-1")
    expect(refused).to_contain_text("ROUTE_MOVED")
    expect(page.get_by_label("Why")).to_have_value(REASON)
    found = migration_of(settings, VIEW)
    assert found is not None
    assert not found[1].hastened

    # What the refusal says has changed is what the page now decides on: the next click counts, however soon it comes.
    page.get_by_role("button", name="Go on now").click()
    expect(page.locator("#standing")).to_contain_text("the next step is taken at the next look")
    expect(refused).to_be_empty()
    expect(page.get_by_label("Why")).to_have_value("")
    assert route_history(settings, VIEW)[-1].why == REASON
    assert is_the_same(page)


def test_a_reason_outlives_the_buttons_that_it_was_meant_for(page: Page, address: str, settings: Settings) -> None:
    migration_page(page, address)
    page.get_by_label("Why").fill(REASON)
    rollback(settings, VIEW, by="bert", why="wrong rows")
    expect(page.locator("#standing")).to_contain_text("rolled back")
    expect(page.get_by_label("Why")).to_have_value(REASON)
    expect(page.get_by_role("button", name="Halt")).to_be_disabled()
    page.get_by_label("Why").fill("")
    expect(page.locator("#change")).to_have_count(0)
    expect(page.locator("#main")).to_be_focused()


def test_a_button_works_as_it_does_without_a_script(page: Page, address: str, settings: Settings) -> None:
    migration_page(page, address)
    page.get_by_label("Why").fill(REASON)
    page.get_by_role("button", name="Halt").click()
    expect(page.locator("#standing")).to_contain_text("halted")
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    newest = route_history(settings, VIEW)[-1]
    assert (newest.changed_by, newest.why) == ("anna", REASON)


def test_a_pace_is_typed_while_the_replay_goes_on(page: Page, address: str, settings: Settings) -> None:
    now = ReplayState(VIEW, 1, "run-1", cut="flights@3", done=500, total=2_000, seconds=10.0, share=0.5, started_ms=1)
    write_state(settings, now)
    opened(page, f"{address}/views/{VIEW}/replays")
    page.get_by_label("Share of the cores").fill("12.5")
    write_state(settings, ReplayState(VIEW, 1, "run-1", done=1_500, total=2_000, seconds=20.0, share=0.5, started_ms=1))
    expect(page.get_by_text("1,500 of 2,000")).to_be_visible()
    expect(page.get_by_label("Share of the cores")).to_have_value("12.5")
    page.get_by_label("Share of the cores").press("Enter")
    expect(page.get_by_text("12.5 % at most")).to_be_visible()
    assert read_control(settings, now).pace == Pace(0.125)
    page.get_by_label("Share of the cores").fill("0.5")
    # In one turn: an update of the page in between would take the attribute away again.
    button = page.get_by_role("button", name="Change the pace")
    button.evaluate("button => { button.form.noValidate = true; button.click(); }")
    expect(page.locator("#refused")).to_be_visible()
    expect(page.get_by_label("Share of the cores")).to_have_value("0.5")


def test_a_login_that_ends_and_a_server_that_is_gone_cost_nothing_that_was_typed(
    page: Page, address: str, settings: Settings, server: tuple[FastAPI, Become]
) -> None:
    migration_page(page, address)
    page.get_by_label("Why").fill(REASON)
    server[1](None)
    expect(page.locator("#stale")).to_contain_text("you are not logged in")
    page.get_by_role("button", name="Halt").click()
    expect(page.locator("#refused")).to_contain_text("nothing was changed")
    expect(page.get_by_label("Why")).to_have_value(REASON)
    server[1]("USER")
    expect(page.locator("#stale")).to_be_empty()

    page.route("**/migration", lambda route: route.abort())
    expect(page.locator("#stale")).to_contain_text("the server doesn't answer")
    page.get_by_role("button", name="Halt").click()
    expect(page.locator("#refused")).to_contain_text("it isn't known whether this was done")
    page.unroute("**/migration")
    expect(page.locator("#stale")).to_be_empty()
    page.get_by_role("button", name="Halt").click()
    expect(page.locator("#standing")).to_contain_text("halted")


def test_a_page_of_another_site_still_changes_nothing(page: Page, address: str, server: tuple[FastAPI, Become]) -> None:
    """localhost is another site than 127.0.0.1."""
    target = f"{address}/views/{VIEW}/migration"
    server[0].add_api_route("/evil", lambda: HTMLResponse(EVIL.format(target)))
    page.goto(address.replace("127.0.0.1", "localhost").removesuffix("/anabranch") + "/evil")
    with page.expect_response(target) as answer:
        page.evaluate("document.forms[0].submit()")
    assert answer.value.status == 403
    expect(page.get_by_text("changes are accepted only from this page")).to_be_visible()


def background(page: Page, frame: str | None = None) -> tuple[int, ...]:
    where = page.frame(name=frame) if frame else page.main_frame
    assert where is not None
    found = where.evaluate("getComputedStyle(document.body).backgroundColor")
    return tuple(map(int, re.findall(r"\d+", found)[:3]))


def test_dark_and_light_follow_at_once(page: Page, address: str, server: tuple[FastAPI, Become]) -> None:
    """The system's, and in a frame the page around it, which is Airflow's."""
    opened(page, f"{address}/")
    page.emulate_media(color_scheme="light")
    assert min(background(page)) > 200
    page.emulate_media(color_scheme="dark")
    assert max(background(page)) < 60
    assert is_the_same(page)

    around = '<!doctype html><html class="light"><iframe name="ours" src="/anabranch/"></iframe>'
    server[0].add_api_route("/around", lambda: HTMLResponse(around))
    page.goto(address.replace("/anabranch", "/around"))
    expect(page.frame_locator("iframe").get_by_role("heading", name="Views")).to_be_visible()
    assert min(background(page, "ours")) > 200, "as Airflow is, not as the system is"
    page.evaluate("document.documentElement.className = 'dark'")
    assert max(background(page, "ours")) < 60
    page.evaluate("document.documentElement.className = 'light'")
    assert min(background(page, "ours")) > 200
    page.emulate_media(color_scheme="light")
