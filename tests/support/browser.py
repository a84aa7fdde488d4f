"""A real Chromium that is led through Airflow's pages as a person would lead it, and the pictures that it takes."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

from anabranch.core.airflow_settings import airflow_address
from anabranch.core.settings import Settings
from anabranch.operate.runtime.secret_files import airflow_login
from PIL import Image
from playwright.sync_api import FrameLocator, Locator, Page, ViewportSize, expect, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
SIZE = 1280, 800
PATIENCE_MS = 60_000
"""The first requests of an api-server take their time, on two cores beside Spark too."""

Picture = Callable[[Page, str], None]
"""Takes a picture of what is seen now, by its name."""


def chromium() -> str | None:
    """The browser of this machine."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def browsing() -> Iterator[Page]:
    """A window that nobody has logged in with. UTC, no animations: two pictures of one thing are alike."""
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright, playwright.chromium.launch(executable_path=chromium()) as browser:
        size = ViewportSize(width=SIZE[0], height=SIZE[1])
        page = browser.new_page(viewport=size, locale="en-GB", timezone_id="UTC", reduced_motion="reduce")
        page.set_default_timeout(PATIENCE_MS)
        yield page


@contextmanager
def logged_in(settings: Settings) -> Iterator[Page]:
    """A window of the platform's first login."""
    with browsing() as page:
        log_in(page, airflow_address(settings), airflow_login(settings))
        yield page


def log_in(page: Page, address: str, login: tuple[str, str]) -> None:
    user, password = login
    page.goto(address)
    page.get_by_label("Username").fill(user)
    page.get_by_label("Password", exact=True).fill(password)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Welcome")).to_be_visible()


def dialogue_of(page: Page, dag: str) -> Locator:
    """The dialogue that triggers a DAG, reached through the list of DAGs; ``dag`` is its title there."""
    page.get_by_role("link", name="Dags", exact=True).click()
    page.get_by_role("link", name=dag, exact=True).first.click()
    trigger = page.get_by_role("button", name="Trigger Dag")
    expect(trigger).to_have_count(1)  # the list, which has one in each row, is gone
    trigger.click()
    return page.get_by_role("dialog").filter(has=page.get_by_role("radio", name="Single Run"))


def field(dialogue: Locator, label: str) -> Locator:
    """A parameter's field. Airflow names few of them, so it is found by the group that its label stands in."""
    return dialogue.get_by_role("group").filter(has_text=label).get_by_role("textbox")


def triggered(page: Page, dialogue: Locator) -> str:
    """Start it; the id of the run, whose page Airflow leads to."""
    dialogue.get_by_role("button", name="Trigger", exact=True).click()
    page.wait_for_url("**/runs/*")
    return unquote(page.url.rpartition("/")[2])


def pick(page: Page, dialogue: Locator, label: str, day: str) -> None:
    """Choose a day of the range in a dialogue of a backfill; ``day`` as 2013/01/31."""
    dialogue.get_by_role("group").filter(has_text=label).get_by_text("Select date and time").click()
    page.get_by_role("textbox", name=label, exact=True).fill(day)
    page.keyboard.press("Escape")


def our_page(page: Page) -> FrameLocator:
    """The page "Anabranch", which Airflow shows in a frame, reached through the navigation."""
    page.get_by_role("link", name="Anabranch").click()
    ours = page.frame_locator('iframe[title="Anabranch"]')
    # From a deep page, the click leads back to this one: a link that is pressed before that is forgotten.
    expect(ours.get_by_role("heading", name="Views", exact=True)).to_be_visible()
    return ours


def picture(page: Page, path: Path, *, whole: bool = False) -> None:
    """A picture for the docs, also of what is below the window: of a palette, a quarter of the bytes, and nobody sees
    it."""
    taken = Image.open(io.BytesIO(page.screenshot(animations="disabled", caret="hide", full_page=whole)))
    taken.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
