"""The ten tasks of a day, as a person does them in a real Chromium on a platform of their own: how many clicks and
typed fields each takes, and how long. ``make tasks`` writes the table of docs/tasks.md. In this order: later tasks need
what earlier ones did."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from anabranch.apps.airflow.client import Client, Run
from anabranch.change.migrate.migration_record import newest_migration
from anabranch.core.airflow_settings import airflow_address
from anabranch.core.settings import Settings
from anabranch.lake import open_table
from anabranch.lake.layout import VersionRef
from anabranch.operate.runtime import lifecycle
from anabranch.operate.runtime.secret_files import airflow_login
from anabranch_samples.demo.change import (
    CHANGED,
    CHECK,
    NEW,
    VIEW,
    caught_up,
    deploy,
    own_project,
    send_late,
    wrong_row,
)
from playwright.sync_api import FrameLocator, Locator, Page, expect
from support.browser import chromium, field, logged_in
from support.processes import SLOW, eventually

pytestmark = [
    pytest.mark.system,
    pytest.mark.sweep,
    pytest.mark.timeout(3_600),
    pytest.mark.skipif(chromium() is None, reason="no Chromium on PATH: run infra/chromium.sh as root, or install one"),
]
DAY = date(2013, 1, 1)
LATE = 3
TABLE = re.compile("(?<=<!-- tasks -->\n).*(?=<!-- end of tasks -->)", re.DOTALL)


@dataclass
class Hand:
    """Does what a person does, and counts it; a reload is a click. ``took``: seconds until the platform had what was
    asked; ``shown``: until the result was seen."""

    page: Page
    task: str
    clicks: int = 0
    fields: int = 0
    began: float = 0.0
    took: float = 0.0
    shown: float = 0.0

    def click(self, what: Locator) -> None:
        what.click()
        self.clicks += 1

    def fill(self, what: Locator, text: str) -> None:
        what.fill(text)
        self.fields += 1

    def asked(self) -> None:
        self.took = time.monotonic() - self.began

    def ours(self, *links: str | re.Pattern[str]) -> FrameLocator:
        """Go to one of our pages, from the navigation, through these links."""
        self.click(self.page.get_by_role("link", name="Anabranch"))
        ours = self.page.frame_locator('iframe[title="Anabranch"]')
        for link in links:
            self.click(ours.get_by_role("link", name=link).first)
        return ours

    def form(self, dag: str) -> Locator:
        """Open a DAG's form, through the list of DAGs."""
        self.click(self.page.get_by_role("link", name="Dags", exact=True))
        self.click(self.page.get_by_role("link", name=dag, exact=True).first)
        return self.trigger(self.page)

    def trigger(self, page: Page) -> Locator:
        button = page.get_by_role("button", name="Trigger Dag")
        expect(button).to_have_count(1)
        self.click(button)
        return page.get_by_role("dialog").filter(has=page.get_by_role("radio", name="Single Run"))

    def more(self, dialogue: Locator) -> None:
        self.click(dialogue.get_by_role("button", name="More"))

    def start(self, dialogue: Locator, page: Page | None = None) -> str:
        """Press the button of the form; returns the run's id."""
        page = page or self.page
        self.click(dialogue.get_by_role("button", name="Trigger", exact=True))
        page.wait_for_url("**/runs/*")
        self.asked()
        return page.url.rpartition("/")[2]

    def approve(self, task: str) -> None:
        self.click(self.page.get_by_role("link", name="Home").last)
        self.page.reload()
        self.clicks += 1
        self.click(self.page.get_by_role("button", name="Required Action"))
        asked = self.page.get_by_role("dialog", name="Required Actions")
        self.click(asked.get_by_role("link", name=task).first)
        self.click(self.page.get_by_role("button", name="Approve"))
        expect(self.page.get_by_text("Response received at")).to_be_visible()


@pytest.fixture(scope="module")
def platform(own_settings: Callable[[str], Settings], three_days: Callable[[Settings], int]) -> Iterator[Settings]:
    with lifecycle.running(own_project(own_settings("tasks"))) as settings:
        three_days(settings)
        eventually(lambda: caught_up(settings, 1, lambda _: None), 300)
        yield settings


@pytest.fixture(scope="module")
def client(platform: Settings) -> Iterator[Client]:
    with Client(airflow_address(platform), airflow_login(platform)) as client:
        yield client


@pytest.fixture(scope="module")
def page(platform: Settings) -> Iterator[Page]:
    with logged_in(platform) as page:
        yield page


@pytest.fixture(scope="module")
def done(request: pytest.FixtureRequest) -> Iterator[list[Hand]]:
    hands: list[Hand] = []
    yield hands
    file: Path | None = request.config.getoption("--tasks")
    if file is not None and not request.session.testsfailed:
        file.write_text(TABLE.sub(lambda _: table(hands), file.read_text()))


@pytest.fixture
def hand(page: Page, done: list[Hand], request: pytest.FixtureRequest) -> Iterator[Hand]:
    hand = Hand(page, request.node.function.__doc__)
    page.goto(page.url.split("/", 3)[0] + "//" + page.url.split("/", 3)[2])  # each task begins on the first page
    hand.began = time.monotonic()
    yield hand
    hand.shown = time.monotonic() - hand.began
    done.append(hand)


def table(hands: list[Hand]) -> str:
    head = ("| task | clicks | fields typed | asked for after | result seen after |", "| --- | --- | --- | --- | --- |")
    rows = (
        f"| {hand.task} | {hand.clicks} | {hand.fields} | {hand.took:.0f} s | {hand.shown:.0f} s |" for hand in hands
    )
    return "\n".join([*head, *rows, "", f"Measured {datetime.now(UTC):%Y-%m-%d}, once, by `make tasks`.", ""])


def ended(client: Client, dag: str, run_id: str, state: str = "success") -> Run:
    run = client.wait(client.run(dag, run_id), timeout=400 * SLOW)
    assert run.state == state, run.note
    return run


def square(ours: FrameLocator, version: int, day: date) -> Locator:
    return ours.locator(f"#v{version}-{day} rect")


def test_run_a_day(hand: Hand, client: Client) -> None:
    """run a day"""
    ours = hand.ours(VIEW, re.compile(f"^{DAY}:"))
    hand.click(ours.get_by_role("button", name="Reprocess v1"))
    started = ours.get_by_role("link", name=re.compile("^page__"))
    expect(started).to_have_count(1)
    hand.asked()
    expect(ours.get_by_text("published at").first).to_be_visible(timeout=300_000)


def test_backfill_five(hand: Hand, client: Client) -> None:
    """backfill five days"""
    dialogue = hand.form("Reprocess route_day")
    hand.click(dialogue.get_by_text("Backfill", exact=True))
    for label, day in (("From", "2012/12/31"), ("To", "2013/01/04")):
        hand.click(dialogue.get_by_role("group").filter(has_text=label).get_by_text("Select date and time"))
        hand.fill(hand.page.get_by_role("textbox", name=label, exact=True), day)
        hand.page.keyboard.press("Escape")
    expect(dialogue.get_by_text("5 runs will be triggered.")).to_be_visible()
    hand.click(dialogue.get_by_role("button", name="Run Backfill"))
    expect(dialogue).to_be_hidden()
    hand.asked()

    def runs() -> list[str]:
        found = client.get("/dags/reprocess_route_day/dagRuns?run_type=backfill")["dag_runs"]
        return [run["state"] for run in found if run["state"] in ("success", "failed")]

    assert eventually(lambda: len(found := runs()) == 5 and found, 600) == ["success"] * 5


@pytest.fixture
def late(platform: Settings, page: Page) -> None:
    """Late events of a published day have landed, and the page knows it."""
    send_late(platform, DAY, LATE)
    page.goto(f"{airflow_address(platform)}/anabranch/views/{VIEW}")
    expect(page.locator(f"#v1-{DAY} rect")).to_have_class("dirty", timeout=240_000)


def test_mend_a_late_day(late: None, hand: Hand, client: Client) -> None:
    """mend a late day"""
    ours = hand.ours(VIEW)
    expect(square(ours, 1, DAY)).to_have_class("dirty")
    with hand.page.context.expect_page() as opened:
        hand.click(ours.get_by_role("link", name="Repair").first)
    other = opened.value
    ended(client, f"repair_{VIEW}", hand.start(hand.trigger(other), other))
    other.close()
    expect(square(ours, 1, DAY)).to_have_class("equal", timeout=120_000)


def test_replay_with_another_share(hand: Hand, client: Client) -> None:
    """replay with another share"""
    dialogue = hand.form("Replay a view")
    hand.more(dialogue)
    share = dialogue.get_by_role("group").filter(has_text="Share of the cores").get_by_role("spinbutton")
    hand.fill(share, "60")
    run_id = hand.start(dialogue)
    ended(client, "replay", run_id)
    assert client.get(f"/dags/replay/dagRuns/{run_id}")["conf"]["share"] == 60


@pytest.fixture(scope="module")
def next_version(platform: Settings, client: Client) -> None:
    deploy(platform)
    eventually(lambda: max(client.get(f"/dags/reprocess_{VIEW}/details")["params"]["version"]["schema"]["enum"]) == 2)
    eventually(lambda: all(caught_up(platform, version, lambda _: None) for version in (1, 2)), 300)
    eventually(lambda: client.get("/dags/migrate/details")["params"]["view"]["value"] == VIEW, 120)


def test_migrate_with_approval(next_version: None, hand: Hand, client: Client) -> None:
    """migrate with approval"""
    dialogue = hand.form("Migrate a view")
    for label, text in {"Why": "by carrier", "Changed columns": "\n".join(CHANGED), "Checks": CHECK}.items():
        hand.fill(field(dialogue, label), text)
    run_id = hand.start(dialogue)
    eventually(lambda: client.run("migrate", run_id).tasks.get("approve") == "awaiting_input", 300)
    hand.approve("approve")
    ours = hand.ours(VIEW, "Readers and migration")
    expect(ours.get_by_text("1 % have v2")).to_be_visible()


def test_halt_and_resume(hand: Hand, platform: Settings) -> None:
    """halt and resume"""
    ours = hand.ours(VIEW, "Readers and migration")
    hand.fill(ours.get_by_label("Why"), "lunch")
    hand.click(ours.get_by_role("button", name="Halt"))
    expect(ours.locator("#standing")).to_contain_text("halted")
    hand.fill(ours.get_by_label("Why"), "back")
    hand.click(ours.get_by_role("button", name="Resume"))
    expect(ours.locator("#standing")).to_contain_text("moving")
    hand.asked()


def test_roll_back(hand: Hand, platform: Settings) -> None:
    """roll back"""
    ours = hand.ours(VIEW, "Readers and migration")
    hand.fill(ours.get_by_label("Why"), "the numbers look odd")
    hand.click(ours.get_by_role("button", name="Roll back"))
    expect(ours.get_by_text("0 % have v2", exact=False)).to_contain_text("rolled back")
    hand.asked()
    assert (found := newest_migration(platform, VIEW)) is not None
    assert found[1].share == 0


@pytest.fixture
def red(platform: Settings, client: Client) -> Iterator[str]:
    """A day of the new version was rebuilt while one of its rows was wrong in speed: the row's key."""
    with wrong_row(platform) as row:
        day = row.split()[2]
        run = client.trigger(f"reprocess_{VIEW}", {"from": day, "to": day, "version": NEW})
        ended(client, run.dag_id, run.run_id, "failed")
        yield row


def test_find_why_a_day_is_red(red: str, hand: Hand) -> None:
    """find why a day is red"""
    _, _, day, _ = red.split()
    ours = hand.ours(VIEW)
    hand.click(ours.locator("ul.held").get_by_role("link", name=day, exact=True))
    said = ours.locator("pre.report").first
    expect(said).to_contain_text("delay_minutes")
    hand.asked()


def test_retire_and_drop(hand: Hand, client: Client, platform: Settings) -> None:
    """retire and drop"""
    dialogue = hand.form("Retire a version")
    hand.fill(dialogue.get_by_role("group").filter(has_text="Version").get_by_role("spinbutton"), f"{NEW}")
    hand.fill(field(dialogue, "Why"), "it was wrong")
    hand.more(dialogue)
    hand.fill(field(dialogue, "Grace"), "0 minutes")
    run_id = hand.start(dialogue)
    eventually(lambda: client.run("retire", run_id).tasks.get("approve") == "awaiting_input", 120)
    hand.approve("approve")
    ended(client, "retire", run_id)
    assert open_table(VersionRef(platform, VIEW, NEW).speed_table) is None


@pytest.fixture
def refused(client: Client) -> Run:
    run = client.trigger(f"reprocess_{VIEW}", {"from": f"{DAY}", "to": f"{DAY - timedelta(days=1)}"})
    return ended(client, run.dag_id, run.run_id, "failed")


def test_find_why_a_run_was_refused(refused: Run, hand: Hand) -> None:
    """find why a run was refused"""
    hand.click(hand.page.get_by_role("link", name="Dags", exact=True))
    hand.click(hand.page.get_by_role("link", name=f"Reprocess {VIEW}", exact=True).first)
    hand.click(hand.page.get_by_role("link", name="Runs", exact=True))
    row = hand.page.get_by_role("row").filter(has_text=refused.run_id)
    hand.click(row.get_by_role("button", name="Note"))
    expect(hand.page.get_by_role("dialog").get_by_text("is before from")).to_be_visible()
    hand.asked()
