"""How long people wait for a page, by wall clock in a real browser, with many views on a real Airflow."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

from anabranch.apps.airflow.client import Client
from anabranch.core.airflow_settings import airflow_address
from anabranch.core.settings import Settings
from anabranch.operate.runtime import lifecycle
from anabranch.operate.runtime.secret_files import airflow_login
from anabranch_samples.demo.change import own_project
from playwright.sync_api import Page, sync_playwright

from benchmarks.figures import Figure, Report, Table
from benchmarks.many_views import days_of_year, make_views
from benchmarks.world import World

VIEWS = 50
SERVER = "airflow-api-server"
WARM_LOADS = 5
"""Of each page, after each cold start."""
_LOADED = "() => performance.getEntriesByType('navigation')[0].loadEventEnd / 1000"


def run(world: World) -> Report:
    cold: dict[str, list[float]] = {}
    warm: dict[str, list[float]] = {}
    with _platform(world) as (settings, view), sync_playwright() as playwright:
        for _ in range(world.runs):
            if not world.platform:  # its other users would lose their requests
                lifecycle.restart(settings, SERVER)
            with playwright.chromium.launch(executable_path=_chromium()) as browser:
                page = browser.new_page()
                _log_in(page, settings)
                for name, path in _paths(page, settings, view).items():
                    cold.setdefault(name, []).append(_load(page, path))
                    warm.setdefault(name, []).append(median(_load(page, path) for _ in range(WARM_LOADS)))
    first = next(iter(cold))
    slowest = max(warm, key=lambda name: median(warm[name]))
    return Report(
        "pages",
        "Pages of a large platform",
        f"{VIEWS} views with a year of published, certified days each, on a real Airflow: from the navigation in "
        f"Chromium until the page is loaded, styles and scripts included. Cold: the first load of a page after the "
        f"API server, and a new browser, started; warm: the median of {WARM_LOADS} loads after it.",
        (_table(cold, warm),),
        (
            Figure("pages.cold", "all views, cold", tuple(cold[first]), " s", limit=1.5, at_least=False),
            Figure("pages.warm", f"the slowest page, warm ({slowest})", tuple(warm[slowest]), " s",
                   limit=0.3, at_least=False),
        ),
        samples={f"{name}, {kind}": found for kind, pages in (("cold", cold), ("warm", warm))
                 for name, found in pages.items()},
    )  # fmt: skip


@contextmanager
def _platform(world: World) -> Iterator[tuple[Settings, str]]:
    """A running Airflow, and the view whose pages are loaded."""
    if world.platform:
        yield world.settings, "departure_delays"
        return
    settings = own_project(world.fresh("pages"))
    names = make_views(settings, VIEWS)
    with lifecycle.running(settings, ["airflow"]):
        yield settings, names[VIEWS // 2]


def _chromium() -> str | None:
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def _log_in(page: Page, settings: Settings) -> None:
    """With a token as the login page sets it: the login's own time is Airflow's."""
    address = airflow_address(settings)
    with Client(address, airflow_login(settings)) as client:
        token = client.authorisation()["authorization"].removeprefix("Bearer ")
    page.context.add_cookies([{"name": "_token", "value": token, "url": address}])


def _paths(page: Page, settings: Settings, view: str) -> dict[str, str]:
    """The address of each page that is loaded. All views come first: that page is cold."""
    base = f"{airflow_address(settings)}/anabranch"
    of_view = f"{base}/views/{view}"
    day = days_of_year()[0]
    return {
        "all views": f"{base}/",
        "a view, with its year": of_view,
        "a day": f"{of_view}/v1/{day}",
        "readers and migration": f"{of_view}/migration",
        "replays": f"{of_view}/replays",
        "checks": f"{base}/checks",
    }


def _load(page: Page, address: str) -> float:
    answer = page.goto(address, wait_until="load")
    if answer is None or not answer.ok:
        text = re.sub("<[^>]+>", " ", page.content())[:200]
        raise AssertionError(f"{address}: {answer and answer.status}: {text}")
    seconds: float = page.evaluate(_LOADED)
    return seconds


def _table(cold: dict[str, list[float]], warm: dict[str, list[float]]) -> Table:
    rows = [
        (name, f"{median(cold[name]):.2f} s", f"{max(cold[name]):.2f} s", f"{median(warm[name]):.2f} s",
         f"{max(warm[name]):.2f} s")
        for name in cold
    ]  # fmt: skip
    return Table("", ("page", "cold, median", "slowest", "warm, median", "slowest"), tuple(rows))
