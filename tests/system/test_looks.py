"""How the pages look in a real Chromium: axe-core finds no serious fault on any of them, light, dark and 390 px wide;
what is small, wide, coloured or hidden can be read, and reached by the keyboard. Pictures of all of them are taken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from anabranch.apps.web import _pages
from anabranch.apps.web._dirty_days import Lookup, LookupResult, NewEvents
from anabranch.certify._run_checks import CheckResult
from anabranch.change.migrate.migration import advance, rollback, start
from anabranch.change.migrate.promotion_checks import Expectations
from anabranch.change.replay.state import PUBLISHED, ReplayState, write_state
from anabranch.compute.speed import status
from anabranch.compute.speed.status import ViewStatus
from anabranch.core.settings import Settings
from anabranch.views import View
from playwright.sync_api import Page, expect
from support.browser import Picture, browsing, chromium, picture
from support.page_app import mount, serving
from support.page_data import DAYS, VIEW, certify, changed, declare, judge, kappa, land, publish, speed

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(600),
    pytest.mark.skipif(chromium() is None, reason="no Chromium on PATH: run infra/chromium.sh as root, or install one"),
]
AXE = Path(__file__).parent.parent / "axe-core" / "axe.min.js"
EQUAL, DIRTY, DIFFERS, REFUSED, ONLY = DAYS
BACK, FRESH = "route_day", "fresh"
PAGES = {
    "overview": "",
    "view": f"views/{VIEW}",
    "day": f"views/{VIEW}/v1/{EQUAL}",
    "day-that-differs": f"views/{VIEW}/v1/{DIFFERS}",
    "whole-view": "views/aircraft_now/v1/whole",
    "migration": f"views/{VIEW}/migration",
    "migration-rolled-back": f"views/{BACK}/migration",
    "replays": f"views/{VIEW}/replays",
    "checks": "checks",
    "run": f"verdicts/{VIEW}/1/run-b",
    "nowhere": "views/nothing",
    "fresh-view": f"views/{FRESH}",
    "fresh-migration": f"views/{FRESH}/migration",
    "fresh-replays": f"views/{FRESH}/replays",
    "fresh-checks": f"views/{FRESH}/checks",
    "day-without-certificate": f"views/{VIEW}/v1/{ONLY}",
}


@dataclass(frozen=True)
class Look:
    name: str
    scheme: Any
    width: int


LOOKS = [Look("light", "light", 1280), Look("dark", "dark", 1280), Look("narrow", "light", 390)]
REPORT = f"""delays v1: 1 rows differ on {DIFFERS}
┃ origin ┃ row is  ┃ column  ┃ speed ┃ expected ┃ source events                                          ┃
│ JFK    │ changed │ flights │ 8     │ 7        │ flights[1]@42, flights[1]@43, flights[2]@41, and more  │"""
RESULTS = (
    CheckResult("landing flights", "offsets_unique", "Every offset of a log partition is landed once.", 80_995),
    CheckResult("batch half", "key_unique", "No two rows have the same key (origin, t).", 1_661, {REFUSED: 4}),
    CheckResult("speed half", "counts_not_negative", "delayed: no count is below 0.", 1_672, {}, "the engine ended"),
)


def _view(name: str, version: int) -> View:
    return View(name, version, ("flight.departed",), ("origin", "t"), lambda rows: rows, partition_by="t")


def fill(settings: Settings) -> None:
    """Everything that pages show: days in each state, a migration that moves and one that went back, a stream that
    failed, replays, runs with checks that failed, and a view that has nothing yet."""
    declare(settings, VIEW, 1, 2)
    declare(settings, BACK, 1, 2)
    declare(settings, FRESH, 1)
    declare(settings, "aircraft_now", 1)
    land(settings, 1, 2, 3)
    for name, version in ((VIEW, 1), (VIEW, 2), (BACK, 1), (BACK, 2)):
        speed(settings, 3, view=name, version=version)
    for name in (VIEW, BACK):
        certify(settings, "run-v", DAYS[:1], 3, view=name)
        certify(settings, "run-v", DAYS[:1], 3, view=name, version=2)
        start(settings, _view(name, 1), _view(name, 2), by="bert", why="v2 counts by carrier", soak_seconds=0,
              promise=Expectations(("delayed",)))  # fmt: skip
        for _ in range(2):
            advance(settings, _view(name, 1), _view(name, 2), by="run move-1")
    kappa(settings, 3, "aircraft_now")
    certify(settings, "run-k", [None], 3, view="aircraft_now")
    shown = publish(settings, "run-a", [EQUAL, DIRTY, DIFFERS], 2)
    certify(settings, "run-a", [EQUAL, DIRTY, DIFFERS], 2, created=datetime(2026, 11, 22, 7, 0, tzinfo=UTC))
    publish(settings, "run-b", [EQUAL], 3, shown)
    certify(settings, "run-b", [EQUAL, DIFFERS, REFUSED], 3, differs=[DIFFERS], late=9)
    held = {DIFFERS: "the halves differ at flights@3", REFUSED: "check key_unique on batch half failed for 4 rows"}
    judge(settings, "run-b", [EQUAL], held, report=REPORT, late_changes=(changed(EQUAL),), results=RESULTS)
    judge(settings, "reprocess-delays-manual-2026-11-22t07-00-00", [EQUAL], {}, results=RESULTS[:1])
    rollback(settings, BACK, by="carl", why="the airline's own figures differ")
    land(settings, 4, 5)
    write_state(
        settings, ReplayState(VIEW, 1, "run-1", phase=PUBLISHED, said="31 of 31 partitions equal", started_ms=1)
    )
    under_way = ReplayState(
        VIEW, 1, "run-2", days="2013-01-01..2013-01-31", cut="flights@3", done=500, total=2_000, seconds=10.0,
        event_seconds=86_400.0, share=0.5, started_ms=2,
    )  # fmt: skip
    write_state(settings, under_way)
    broken = ViewStatus(
        VIEW, 2, "failed", cut="flights@2", error="ValueError: a bad row\n  in line 3 of delays.py " * 9
    )
    status.write(settings, [ViewStatus(VIEW, 1, "running"), broken])


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("looks")
    settings = Settings(home=folder / "home", project=folder / "project")
    fill(settings)
    looked = LookupResult({DIRTY: NewEvents(5, 4, "flights@2")}, 7, {date(2012, 12, 31): 2})
    with pytest.MonkeyPatch.context() as patched:
        server, become = mount(settings, patched)
        patched.setattr(_pages, "LOOKUP", Lookup(find=lambda settings, keys: dict.fromkeys(keys, looked)))
        become("USER")
        with serving(server) as address:
            yield f"{address}/anabranch"


@pytest.fixture(scope="module")
def browser_page(address: str) -> Iterator[Page]:
    with browsing() as page:
        expect.set_options(timeout=10_000)
        page.goto(f"{address}/")
        _pages.LOOKUP.wait(10)
        yield page


@pytest.fixture
def page(browser_page: Page, address: str) -> Iterator[Page]:
    """A window that asks nobody else, and whose console says nothing."""
    asked: list[str] = []
    said: list[str] = []
    browser_page.on("request", lambda request: asked.append(request.url))
    browser_page.on("console", lambda message: said.append(message.text))
    browser_page.on("pageerror", lambda error: said.append(str(error)))
    look(browser_page, LOOKS[0])
    yield browser_page
    assert [url for url in asked if not url.startswith(address)] == []
    assert [text for text in said if "Failed to load resource" not in text] == []


@pytest.fixture(scope="module")
def take(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Picture:
    folder: Path = request.config.getoption("--pictures") or tmp_path_factory.mktemp("pictures")
    folder.mkdir(parents=True, exist_ok=True)
    return lambda page, name: picture(page, folder / f"{name}.png", whole=True)


def look(page: Page, wanted: Look) -> None:
    page.emulate_media(color_scheme=wanted.scheme)
    page.set_viewport_size({"width": wanted.width, "height": 800})


def faults(page: Page) -> list[str]:
    """What axe-core calls serious or critical."""
    if not page.evaluate("typeof axe === 'object'"):
        page.evaluate(AXE.read_text())
    found: Mapping[str, Any] = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{fault['id']} ({fault['impact']}): {node['html'][:200]} {node.get('failureSummary', '')[:300]}"
        for fault in found["violations"]
        if fault["impact"] in ("serious", "critical")
        for node in fault["nodes"]
    ]


CONTRASTS = """() => {
  const light = (color) => {
    const [r, g, b] = color.match(/[\\d.]+/g).map(Number)
      .map((part) => part / 255).map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const back = light(getComputedStyle(document.body).backgroundColor);
  return [...document.querySelectorAll("svg text")].map((text) => {
    const front = light(getComputedStyle(text).fill);
    return (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
  });
}"""
TABLES = """() => [...document.querySelectorAll("table")].filter((table) =>
  table.caption === null || [...table.querySelectorAll("th")].some((head) => !head.scope || !head.textContent.trim())
  || [...table.tBodies[0].rows].some((row) => !row.querySelector("th[scope=row], .failed"))
).map((table) => table.outerHTML.slice(0, 300))"""


@pytest.mark.parametrize("name", PAGES)
def test_no_page_has_a_serious_fault(page: Page, address: str, take: Picture, name: str) -> None:
    page.goto(f"{address}/{PAGES[name]}")
    for wanted in LOOKS:
        look(page, wanted)
        take(page, f"page-{name}-{wanted.name}")
        assert faults(page) == [], wanted
        wide = page.evaluate("document.scrollingElement.scrollWidth")
        assert wide <= wanted.width, f"{wanted}: the page is {wide} px wide"
        assert min(page.evaluate(CONTRASTS), default=21) >= 4.5, wanted
    assert page.evaluate(TABLES) == []
    assert page.evaluate("document.querySelectorAll('[title]').length") == 0, "nobody gets there by the keyboard"


def test_axe_finds_what_is_wrong(page: Page, address: str) -> None:
    """Else the test above would say nothing."""
    page.goto(f"{address}/")
    page.evaluate("document.querySelector('h1').style.color = '#aaa'")
    assert any("color-contrast" in fault for fault in faults(page))


def test_the_certificates_fit_a_window_of_1280_with_airflow_s_navigation(page: Page, address: str) -> None:
    page.set_viewport_size({"width": 1200, "height": 800})
    page.goto(f"{address}/{PAGES['day-that-differs']}")
    table = page.locator(".certificates")
    assert table.evaluate("table => table.scrollWidth - table.parentElement.clientWidth") <= 0


def test_the_legend_of_shares_is_there_behind_a_rollback_too(page: Page, address: str) -> None:
    for name, shares in (("migration", ["v1 95 %", "v2 5 %"]), ("migration-rolled-back", ["v1 100 %", "v2 0 %"])):
        page.goto(f"{address}/{PAGES[name]}")
        assert [text.strip() for text in page.locator(".legend li").all_inner_texts()] == shares
        colours = "areas => areas.map((area) => getComputedStyle(area).fill)"
        plotted = page.locator("path.share").evaluate_all(colours)
        assert page.locator(".legend .share").evaluate_all(colours) == plotted
        assert len(set(plotted)) == 2


def test_what_explains_itself_does_so_at_the_keyboard_too(page: Page, address: str) -> None:
    tip = page.locator("#tip")
    explained = {"overview": ("#delays-v1 .tip", "committed"), "view": (f"#v1-{EQUAL}", f"{EQUAL}: published"),
                 "day": (".plot [data-tip^='2026-11-22']", "2026-11-22 07:00:00: paths equal")}  # fmt: skip
    for name, (where, said) in explained.items():
        page.goto(f"{address}/{PAGES[name]}")
        first = page.locator(where).first
        expect(tip).to_be_hidden()
        page.keyboard.press("Tab")
        first.focus()
        expect(tip).to_contain_text(said)
        box = tip.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 1280
        page.keyboard.press("Escape")
        expect(tip).to_be_hidden()
        page.mouse.move(0, 0)
        first.hover()
        expect(tip).to_contain_text(said)


def test_the_first_tab_leads_past_the_navigation(page: Page, address: str) -> None:
    page.goto(f"{address}/{PAGES['view']}")
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the content")
    expect(skip).to_be_focused()
    box = skip.bounding_box()
    assert box is not None
    assert box["x"] >= 0, "it is seen once it has the focus"
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()


def test_what_is_empty_says_what_comes_next(page: Page, address: str) -> None:
    """Each with a command."""
    said = {
        "overview": "anabranch status",
        "fresh-view": "anabranch status",
        "fresh-migration": f"anabranch migrate start {FRESH}",
        "fresh-replays": f"anabranch replay start {FRESH} --version 1",
        "fresh-checks": f"anabranch reprocess {FRESH} --missing",
        "day-without-certificate": f"anabranch reprocess {VIEW} --version 1 --from {ONLY} --to {ONLY}",
    }
    for name, command in said.items():
        page.goto(f"{address}/{PAGES[name]}")
        assert any(command in text for text in page.locator("code").all_inner_texts()), name
