"""The ten tasks of a day at this (old) commit, as a person does them in a real Chromium on a platform of their own: how
many clicks and typed fields each takes, and how long. Counted as ``Hand`` of the later ``tests/system/test_tasks.py``
counts; beside that a reload of a page is a click, and is counted by itself, too. In this order: later tasks need what
earlier ones did. A reload is done once, in the moment in which it shows what is waited for: a person who doesn't know
when that is needs more of them.

Copy this file into tests/system of a checkout of 46c6225, and run there, after `make setup`:

    TASKS_BEFORE=FOLDER .venv/bin/pytest tests/system/tasks_at_46c6225.py -s

FOLDER gets table.md, tasks.jsonl and pictures of each task's end. ``KEEP=1``: the platform's home is FOLDER/home, and is
used again by the next call (which may run some of the tests with -k)."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field as dataclass_field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from urllib.parse import unquote

import pytest
from anabranch.airflow.client import Client, Run
from anabranch.change.migration import migration_of
from anabranch.cli.demo_change import CHECK, NEW, VIEW, deploy, level, own_project, send_late, wrong_row
from anabranch.control import lifecycle
from anabranch.control.airflow_parts import airflow_address
from anabranch.control.keys import airflow_login
from anabranch.serving.routes import route_of
from anabranch.settings import Settings
from anabranch.tables.commits import open_table
from anabranch.tables.layout import speed_table
from clicking import browsing, chromium, field, log_in
from playwright.sync_api import FrameLocator, Locator, Page, expect
from processes import SLOW, eventually

pytestmark = [
    pytest.mark.system,
    pytest.mark.sweep,
    pytest.mark.timeout(3_600),
    pytest.mark.skipif(chromium() is None, reason="no Chromium on PATH: run infra/chromium.sh as root, or install one"),
]
DAY = date(2013, 1, 1)
LATE = 3
OUT = Path(os.environ.get("TASKS_BEFORE", "tasks-before"))


@dataclass
class Hand:
    """Does what a person does, and counts it. ``took``: seconds until the platform had what was asked; ``shown``: until
    the result was seen. ``reloads`` are among the clicks."""

    page: Page = dataclass_field(repr=False)
    task: str
    clicks: int = 0
    fields: int = 0
    reloads: int = 0
    began: float = 0.0
    took: float = 0.0
    shown: float = 0.0
    remarks: list[str] = dataclass_field(default_factory=list)

    def click(self, what: Locator) -> None:
        what.click()
        self.clicks += 1

    def fill(self, what: Locator, text: str) -> None:
        what.fill(text)
        self.fields += 1

    def reload(self) -> None:
        self.page.reload()
        self.clicks += 1
        self.reloads += 1

    def asked(self) -> None:
        self.took = time.monotonic() - self.began

    def remark(self, text: str) -> None:
        self.remarks.append(f"[{time.monotonic() - self.began:.1f} s, {self.clicks} clicks] {text}")

    def ours(self, *links: str | re.Pattern[str]) -> FrameLocator:
        self.click(self.page.get_by_role("link", name="Anabranch"))
        ours = self.page.frame_locator('iframe[title="Anabranch"]')
        for link in links:
            self.click(ours.get_by_role("link", name=link).first)
        return ours

    def form(self, dag: str) -> Locator:
        self.click(self.page.get_by_role("link", name="Dags", exact=True))
        self.click(self.page.get_by_role("link", name=dag, exact=True).first)
        return self.trigger(self.page)

    def trigger(self, page: Page) -> Locator:
        button = page.get_by_role("button", name="Trigger Dag")
        expect(button).to_have_count(1)
        self.click(button)
        return page.get_by_role("dialog").filter(has=page.get_by_role("radio", name="Single Run"))

    def start(self, dialogue: Locator, page: Page | None = None) -> str:
        page = page or self.page
        self.click(dialogue.get_by_role("button", name="Trigger", exact=True))
        page.wait_for_url("**/runs/*")
        self.asked()
        return unquote(page.url.rpartition("/")[2])

    def approve(self, task: str) -> None:
        self.click(self.page.get_by_role("link", name="Home").last)
        self.reload()
        self.click(self.page.get_by_role("button", name="Required Action"))
        asked = self.page.get_by_role("dialog", name="Required Actions")
        self.click(asked.get_by_role("link", name=task).first)
        self.click(self.page.get_by_role("button", name="Approve"))
        expect(self.page.get_by_text("Response received at")).to_be_visible()

    def picture(self, name: str, page: Page | None = None) -> None:
        OUT.mkdir(parents=True, exist_ok=True)
        (page or self.page).screenshot(path=OUT / f"{name}.png")

    def note_without_reload(self, text: str, client: Client, dag: str, run_id: str) -> None:
        """On the run's page, whose run has ended just now: does its note show by itself? Not a part of any task."""
        before = time.monotonic()
        ended(client, dag, run_id)
        try:
            expect(self.page.get_by_text(text).first).to_be_visible(timeout=15_000)
            self.remarks.append(f"the note of the run is seen without a reload, {time.monotonic() - before:.1f} s later")
        except AssertionError:
            self.remarks.append("the note of the run is not seen within 15 s without a reload")


@pytest.fixture(scope="module")
def platform(own_settings: Callable[[str], Settings], three_days: Callable[[Settings], int]) -> Iterator[Settings]:
    settings = own_settings("tasks")
    if os.environ.get("KEEP"):
        OUT.mkdir(parents=True, exist_ok=True)
        settings = settings.model_copy(update={"home": OUT / "home"})
    again = (settings.home / "project").exists()
    settings = settings.model_copy(update={"project": settings.home / "project"}) if again else own_project(settings)
    with lifecycle.running(settings) as settings:
        if not again:
            three_days(settings)
        eventually(lambda: level(settings, 1, lambda _: None), 300)
        yield settings


@pytest.fixture(scope="module")
def client(platform: Settings) -> Iterator[Client]:
    with Client(airflow_address(platform), airflow_login(platform)) as client:
        yield client


@pytest.fixture(scope="module")
def page(platform: Settings) -> Iterator[Page]:
    with browsing() as page:
        log_in(page, airflow_address(platform), airflow_login(platform))
        yield page


@pytest.fixture(scope="module")
def done() -> Iterator[list[Hand]]:
    hands: list[Hand] = []
    yield hands
    if hands:
        print("\n" + table(hands))


@pytest.fixture
def hand(page: Page, done: list[Hand], request: pytest.FixtureRequest) -> Iterator[Hand]:
    hand = Hand(page, request.node.function.__doc__)
    page.goto(page.url.split("/", 3)[0] + "//" + page.url.split("/", 3)[2])  # each task begins on the first page
    expect(page.get_by_role("heading", name="Welcome")).to_be_visible()
    hand.began = time.monotonic()
    yield hand
    hand.shown = hand.shown or time.monotonic() - hand.began
    done.append(hand)
    hand.picture(f"{len(done)}-{hand.task.replace(' ', '-')}")
    OUT.mkdir(parents=True, exist_ok=True)
    known = {**asdict_of(hand), "at": f"{datetime.now(UTC):%Y-%m-%d %H:%M}"}
    with (OUT / "tasks.jsonl").open("a") as file:
        file.write(json.dumps(known) + "\n")
    (OUT / "table.md").write_text(table(done))


def asdict_of(hand: Hand) -> dict[str, object]:
    return {name: value for name, value in vars(hand).items() if name != "page"}


def table(hands: list[Hand]) -> str:
    head = (
        "| task | clicks | fields typed | asked for after | result seen after | remark |",
        "| --- | --- | --- | --- | --- | --- |",
    )
    rows = (
        f"| {h.task} | {h.clicks} ({h.reloads} reloads) | {h.fields} | {h.took:.1f} s | {h.shown:.1f} s "
        f"| {'; '.join(h.remarks)} |"
        for h in hands
    )
    return "\n".join([*head, *rows, "", f"Measured {datetime.now(UTC):%Y-%m-%d %H:%M}.", ""])


def ended(client: Client, dag: str, run_id: str, state: str = "success") -> Run:
    run = client.wait(client.run(dag, run_id), timeout=400 * SLOW)
    assert run.state == state, (run.note, run.tasks)
    return run


def square(ours: FrameLocator | Page, version: int, day: str) -> Locator:
    return ours.locator(f'a[href$="/views/{VIEW}/v{version}/{day}"] rect')


def badge(page: Page, state: str) -> Locator:
    """The state of the run in the head of its page."""
    return page.get_by_test_id("state-badge").filter(has_text=re.compile(state, re.IGNORECASE)).first


def test_run_a_day(hand: Hand, client: Client) -> None:
    """run a day"""
    dialogue = hand.form(f"Reprocess {VIEW}")
    hand.fill(field(dialogue, "From (partition)"), f"{DAY}")
    hand.fill(field(dialogue, "To (partition)"), f"{DAY}")
    run_id = hand.start(dialogue)
    ended(client, f"reprocess_{VIEW}", run_id)
    hand.remark("the run has ended")
    said = hand.page.get_by_text(f"Rebuilt {DAY} of {VIEW} v1: ")
    at = time.monotonic()
    expect(hand.page.get_by_test_id("state-badge").first).to_contain_text("Success", timeout=30_000)
    hand.remark(f"the run's page is green by itself, {time.monotonic() - at:.1f} s behind its end")
    hand.picture("run-a-day-green")
    if not said.first.is_visible():
        hand.reload()
    expect(said.first).to_be_visible()


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
    """Late events of a published day have landed, and the page knows it: it is asked again and again, since it says
    only what it was told to look up, at most once a minute."""
    send_late(platform, DAY, LATE)

    def dirty() -> bool:
        page.goto(f"{airflow_address(platform)}/anabranch/views/{VIEW}")
        return square(page, 1, f"{DAY}").get_attribute("class") == "dirty"

    eventually(lambda: dirty() or time.sleep(2), 240)


def test_mend_a_late_day(late: None, hand: Hand, client: Client) -> None:
    """mend a late day"""
    ours = hand.ours(VIEW)
    expect(square(ours, 1, f"{DAY}")).to_have_class("dirty")
    with hand.page.context.expect_page() as opened:
        hand.click(ours.get_by_role("link", name="Repair").first)
    other = opened.value
    run_id = hand.start(hand.trigger(other), other)
    ended(client, f"repair_{VIEW}", run_id)
    hand.remark("the run has ended")
    other.close()
    if square(ours, 1, f"{DAY}").get_attribute("class") != "equal":
        hand.remark("the page still says dirty: its own link to the view, once more, instead of a reload")
        hand.click(ours.get_by_role("navigation").get_by_role("link", name=VIEW))
        hand.reloads += 1
    expect(square(ours, 1, f"{DAY}")).to_have_class("equal", timeout=120_000)


def test_replay_with_another_share(hand: Hand, client: Client) -> None:
    """replay with another share"""
    dialogue = hand.form("Replay a view")
    share = dialogue.get_by_role("group").filter(has_text="Share of the cores").get_by_role("spinbutton")
    hand.fill(share, "60")
    run_id = hand.start(dialogue)
    ended(client, "replay", run_id)
    hand.shown = time.monotonic() - hand.began
    assert client.get(f"/dags/replay/dagRuns/{run_id}")["conf"]["share"] == 60
    hand.note_without_reload("Replayed", client, "replay", run_id)


@pytest.fixture(scope="module")
def next_version(platform: Settings, client: Client) -> None:
    deploy(platform)
    eventually(lambda: max(client.get(f"/dags/reprocess_{VIEW}/details")["params"]["version"]["schema"]["enum"]) == 2)
    eventually(lambda: all(level(platform, version, lambda _: None) for version in (1, 2)), 300)
    eventually(lambda: client.get("/dags/migrate/details")["params"]["view"]["value"] == VIEW, 120)


def test_migrate_with_approval(next_version: None, hand: Hand, client: Client, platform: Settings) -> None:
    """migrate with approval"""
    dialogue = hand.form("Migrate a view")
    for label, text in {"Why": "by carrier", "Changed columns": "delayed", "Checks": CHECK}.items():
        hand.fill(field(dialogue, label), text)
    run_id = hand.start(dialogue)
    eventually(lambda: client.run("migrate", run_id).tasks.get("approve") == "awaiting_input", 300)
    hand.remark("it asks for approval")
    hand.approve("approve")
    hand.remark("approved")
    ours = hand.ours(VIEW, "Readers and migration")
    said = ours.get_by_text("1 % have v2")
    expect(ours.get_by_role("heading", name=f"Readers of {VIEW}")).to_be_visible()
    if not said.is_visible():
        eventually(lambda: (found := migration_of(platform, VIEW)) is not None and found[1].share == 1, 120)
        hand.remark("not seen at once: the page's own links, once more, instead of a reload")
        hand.click(ours.get_by_role("navigation").get_by_role("link", name=VIEW))
        hand.click(ours.get_by_role("link", name="Readers and migration"))
        hand.reloads += 2
    expect(said).to_be_visible()


def test_halt_and_resume(hand: Hand, platform: Settings) -> None:
    """halt and resume"""
    ours = hand.ours(VIEW, "Readers and migration")
    hand.fill(ours.get_by_label("Why"), "lunch")
    hand.click(ours.get_by_role("button", name="Halt"))
    expect(ours.locator("p.state .tag")).to_have_text("halted")
    hand.fill(ours.get_by_label("Why"), "back")
    hand.click(ours.get_by_role("button", name="Resume"))
    expect(ours.locator("p.state .tag")).to_have_text("moving")
    hand.asked()


def test_roll_back(hand: Hand, platform: Settings) -> None:
    """roll back"""
    ours = hand.ours(VIEW, "Readers and migration")
    hand.fill(ours.get_by_label("Why"), "the numbers look odd")
    hand.click(ours.get_by_role("button", name="Roll back"))
    expect(ours.get_by_text("0 % have v2", exact=False)).to_contain_text("rolled back")
    hand.asked()
    assert (route := route_of(platform, VIEW)) is not None
    assert dict(route.shares) == {1: 100}


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
    expect(square(ours, NEW, day)).to_have_class("held")
    hand.picture("red-square")
    hand.click(square(ours, NEW, day))
    said = ours.locator("pre.report").first
    expect(said).to_contain_text("delay_minutes")
    hand.asked()


def choose(hand: Hand, dialogue: Locator, label: str, option: str) -> None:
    """One of a list, in a field of a form."""
    field = dialogue.get_by_role("group").filter(has_text=re.compile(f"^{label}"))
    hand.remarks.append(f"the form offers {field.inner_text().split()!r}")
    hand.click(field.get_by_role("combobox"))
    hand.click(hand.page.get_by_role("option", name=option, exact=True))


def test_retire_and_drop(hand: Hand, client: Client, platform: Settings) -> None:
    """retire and drop"""
    dialogue = hand.form("Retire a version")
    choose(hand, dialogue, "View", VIEW)
    hand.fill(dialogue.get_by_role("group").filter(has_text="Version").get_by_role("spinbutton"), f"{NEW}")
    hand.fill(field(dialogue, "Why"), "it was wrong")
    hand.fill(field(dialogue, "Grace"), "0 minutes")
    hand.picture("retire-form")
    run_id = hand.start(dialogue)
    eventually(lambda: client.run("retire", run_id).tasks.get("approve") == "awaiting_input", 120)
    hand.remark("it asks for approval")
    hand.approve("approve")
    ended(client, "retire", run_id)
    hand.shown = time.monotonic() - hand.began
    assert client.get(f"/dags/retire/dagRuns/{run_id}")["conf"]["view"] == VIEW
    assert open_table(speed_table(platform, VIEW, NEW)) is None


@pytest.fixture
def refused(client: Client) -> Run:
    asked = {"from": f"{DAY}", "to": f"{DAY - timedelta(days=1)}", "version": 1}
    run = client.trigger(f"reprocess_{VIEW}", asked)
    return ended(client, run.dag_id, run.run_id, "failed")


def test_find_why_a_run_was_refused(refused: Run, hand: Hand) -> None:
    """find why a run was refused"""
    hand.click(hand.page.get_by_role("link", name="Dags", exact=True))
    hand.click(hand.page.get_by_role("link", name=f"Reprocess {VIEW}", exact=True).first)
    hand.click(hand.page.get_by_role("link", name="Runs", exact=True))
    row = hand.page.get_by_role("row").filter(has_text=refused.run_id)
    expect(row).to_be_visible()
    hand.picture("refused-runs")
    hand.remarks.append(f"note of the run: {refused.note!r}")
    hand.click(row.locator(f'a[href*="{refused.run_id}"]').first)
    task = hand.page.get_by_role("row").filter(has_text="Failed").get_by_role("link", name="plan", exact=True)
    expect(task).to_be_visible()
    hand.picture("refused-run")
    hand.click(task)
    expect(hand.page.get_by_text("lies before from").first).to_be_visible()
    hand.asked()


def test_find_why_a_run_was_refused_by_the_overview(refused: Run, hand: Hand) -> None:
    """find why a run was refused (through the grid)"""
    hand.click(hand.page.get_by_role("link", name="Dags", exact=True))
    hand.click(hand.page.get_by_role("link", name=f"Reprocess {VIEW}", exact=True).first)
    hand.click(hand.page.locator(f'a[href*="{refused.run_id}"][href*="/tasks/plan"]').first)
    expect(hand.page.get_by_text("lies before from").first).to_be_visible()
    hand.asked()
