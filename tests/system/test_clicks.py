"""The main ways through the UI, clicked in a real Chromium; the pictures of them in docs/images are made here."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path

import pytest
from anabranch import read
from anabranch.apps.airflow.client import Client, Run
from anabranch.certify.certificates import newest_certificates
from anabranch.compute.speed import status
from anabranch.core.airflow_settings import airflow_address
from anabranch.core.settings import Settings
from anabranch.lake.layout import VersionRef
from anabranch.operate.runtime.secret_files import airflow_login
from anabranch.serve.routes import route_of
from anabranch_samples.demo.change import CHANGED, CHECK, NEXT, VIEW, caught_up, deploy
from playwright.sync_api import FrameLocator, Page, expect
from support.browser import Picture, chromium, dialogue_of, field, logged_in, our_page, pick, picture, triggered
from support.processes import SLOW, eventually

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(2_700),
    pytest.mark.skipif(chromium() is None, reason="no Chromium on PATH: run infra/chromium.sh as root, or install one"),
]

DAY, NEXT_DAY = date(2013, 1, 1), date(2013, 1, 2)
READERS = [f"dashboard-{n}" for n in range(20)]
BACK = "the airline's own figures differ"


@pytest.fixture(scope="module")
def client(platform: Settings) -> Iterator[Client]:
    with Client(airflow_address(platform), airflow_login(platform)) as client:
        yield client


@pytest.fixture(scope="module")
def page(platform: Settings) -> Iterator[Page]:
    with logged_in(platform) as page:
        yield page


@pytest.fixture(scope="session")
def take(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Picture:
    folder: Path = request.config.getoption("--pictures") or tmp_path_factory.mktemp("pictures")
    folder.mkdir(parents=True, exist_ok=True)
    return lambda page, name: picture(page, folder / f"{name}.png")


@pytest.fixture
def next_version(platform: Settings, client: Client, three_days: Callable[[Settings], int]) -> Iterator[None]:
    """Version 2 of the view is deployed; and taken away again, since the other tests know one version only."""
    deploy(platform)
    three_days(platform)
    eventually(lambda: _offered(client) == 2 and _level(platform, 1, 2), 180)
    yield
    (platform.project / "spark_jobs" / "views" / NEXT).unlink()
    eventually(lambda: _offered(client) == 1 and _streams(platform) == [1, 1, 1], 120)


def test_a_migration_is_approved_and_rolled_back(
    page: Page, client: Client, platform: Settings, take: Picture, next_version: None
) -> None:
    """First, as long as nothing is published: then there is nothing to build for the next version."""
    run = _migrate(page, client)
    eventually(lambda: _waits(client, run), 240)
    _approve(page, take)
    eventually(lambda: _versions_read(platform) == {1, 2})

    ours = our_page(page)
    ours.get_by_role("link", name=VIEW).first.click()
    ours.get_by_role("link", name="Readers and migration").click()
    expect(ours.get_by_text("25 % have v2")).to_be_visible()
    take(page, "migration-running")
    ours.get_by_label("Why").fill(BACK)
    ours.get_by_role("button", name="Roll back").click()
    expect(ours.get_by_text("0 % have v2", exact=False)).to_contain_text("rolled back")
    take(page, "migration-rolled-back")
    our_page(page)  # the navigation's link leads to the first page from a deep one, too
    expect(ours.get_by_role("heading", name="Views", exact=True)).to_be_visible()
    ours.get_by_role("link", name=VIEW).first.click()
    ours.get_by_role("link", name="Readers and migration").click()
    expect(ours.get_by_role("link", name=run.run_id).first).to_be_visible()

    eventually(lambda: _versions_read(platform) == {1}, 10)
    route = route_of(platform, VIEW)
    assert route is not None
    assert (dict(route.shares), route.changed_by, route.why) == ({1: 100}, "admin", BACK)
    assert client.wait(run, timeout=120 * SLOW).state == "failed"
    _sees_why_the_run_is_red(page, ours, run)


def _migrate(page: Page, client: Client) -> Run:
    dialogue = dialogue_of(page, "Migrate a view")
    for label, text in {"Why": "by carrier", "Changed columns": "\n".join(CHANGED), "Checks": CHECK}.items():
        field(dialogue, label).fill(text)
    dialogue.get_by_role("button", name="More").click()  # one section is open at a time
    field(dialogue, "Steps").fill("25,50,100")
    return client.run("migrate", triggered(page, dialogue))


def _waits(client: Client, run: Run) -> bool:
    now = client.run(run.dag_id, run.run_id)
    assert not now.finished, now.note
    return now.tasks.get("approve") == "awaiting_input"


def _approve(page: Page, take: Picture) -> None:
    page.get_by_role("link", name="Home").last.click()
    page.reload()  # it shows what it knew when it was last looked at, for a while
    page.get_by_role("button", name="Required Action").click()
    asked = page.get_by_role("dialog", name="Required Actions")
    asked.get_by_role("row", name="migrate").first.click()
    asked.get_by_role("link", name="approve").click()
    expect(asked).to_be_hidden()
    expect(page.get_by_role("heading", name="approve", exact=True)).to_be_visible()
    for line in ("delay_minutes: equal", "only the declared columns differ"):
        expect(page.get_by_text(line, exact=True)).to_be_visible()
    take(page, "required-action")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_text("Response received at")).to_be_visible()


def _sees_why_the_run_is_red(page: Page, ours: FrameLocator, run: Run) -> None:
    with page.context.expect_page() as opened:
        ours.get_by_role("link", name="Runs of migrate").click()
    runs = opened.value
    runs.locator(f'a[href*="{run.run_id}"]').first.click()
    expect(runs.get_by_text(f"rolled back, 0 % have v2 (steps 25, 50, 100): {BACK} (by admin)")).to_be_visible()
    runs.close()


def test_days_are_reprocessed_by_the_form_and_by_a_backfill(
    page: Page, client: Client, platform: Settings, take: Picture, three_days: Callable[[Settings], int]
) -> None:
    """And by the form on a day's page, which is filled in. All are under way at once."""
    three_days(platform)
    eventually(lambda: _level(platform, 1), 180)
    again = _by_a_days_page(page, client, take)
    run = _by_the_form(page, client, take)
    _by_a_backfill(page, take)
    page.goto("about:blank")  # an open page asks for all tasks again and again, and never for a run's new note

    for each in (run, again):
        assert (found := client.wait(each, timeout=300 * SLOW)).state == "success", found.note
    days = ("2012-12-31", f"{DAY}")
    assert eventually(lambda: len(found := _backfilled(client)) == 2 and found, 300) == dict.fromkeys(days, "success")
    for view, day in ((VIEW, DAY), ("route_day", DAY), (VIEW, NEXT_DAY)):
        assert newest_certificates(VersionRef(platform, view, 1))[day].equal
        assert read(view, settings=platform).halves[day] == "batch"
    page.goto(run.url)
    expect(page.get_by_text(f"Rebuilt {DAY} of {VIEW} v1: ")).to_be_visible()


def _by_a_days_page(page: Page, client: Client, take: Picture) -> Run:
    ours = our_page(page)
    ours.get_by_role("link", name=VIEW).first.click()
    ours.get_by_role("link", name=f"{NEXT_DAY}:").first.click()
    expect(ours.get_by_label("From")).to_have_value(f"{NEXT_DAY}")
    ours.get_by_role("button", name="Reprocess v1").click()
    started = ours.get_by_role("link", name=re.compile("^page__"))
    expect(started).to_have_count(1)
    expect(ours.get_by_text(re.compile("^(queued|running)$"))).to_be_visible()
    take(page, "day-again")
    run = client.run(f"reprocess_{VIEW}", (started.text_content() or "").partition("\xa0")[0])
    found = client.get(f"/dags/{run.dag_id}/dagRuns/{run.run_id}")
    assert found["conf"] == {"from": f"{NEXT_DAY}", "to": f"{NEXT_DAY}", "version": 1}
    assert found["triggering_user_name"] == "admin"
    return run


def _by_the_form(page: Page, client: Client, take: Picture) -> Run:
    dialogue = dialogue_of(page, f"Reprocess {VIEW}")
    field(dialogue, "From (partition)").fill(f"{DAY}")
    field(dialogue, "To (partition)").fill(f"{DAY}")
    take(page, "reprocess-form")
    return client.run(f"reprocess_{VIEW}", triggered(page, dialogue))


def _by_a_backfill(page: Page, take: Picture) -> None:
    """A day before all that has landed, and the first one that has: each run finds its own day. Of a view that no other
    test backfills."""
    dialogue = dialogue_of(page, "Reprocess route_day")
    dialogue.get_by_text("Backfill", exact=True).click()
    pick(page, dialogue, "From", "2012/12/31")
    pick(page, dialogue, "To", "2013/01/01")
    expect(dialogue.get_by_text("2 runs will be triggered.")).to_be_visible()
    take(page, "backfill-dialogue")
    dialogue.get_by_role("button", name="Run Backfill").click()
    expect(dialogue).to_be_hidden()
    page.get_by_role("link", name="Backfills").click()
    expect(page.get_by_role("row", name="2012-12-31 00:00:00 2013-01-01 23:59:59")).to_be_visible()


def _backfilled(client: Client) -> dict[str, str]:
    """How the runs have ended, by their days."""
    made = client.get("/dags/reprocess_route_day/dagRuns?run_type=backfill")["dag_runs"]
    return {run["partition_key"]: run["state"] for run in made if run["state"] in ("success", "failed")}


def _offered(client: Client) -> int:
    """The newest version that the forms offer; both are read again some time after a file has changed. What readers
    have stays the default."""
    form = client.get(f"/dags/reprocess_{VIEW}/details")["params"]["version"]
    newest = max(form["schema"]["enum"])
    assert form["value"] == 1
    several = client.get("/dags/migrate/details")["params"]["view"]["value"] == VIEW
    return int(newest) if several == (newest == 2) else 0


def _streams(settings: Settings) -> list[int]:
    """The versions whose streams run."""
    return [told.version for told in status.read(settings) if told.state == "running"]


def _level(settings: Settings, *versions: int) -> bool:
    """Whether their streams cover all that has landed."""
    return all(caught_up(settings, version, lambda _: None) for version in versions)


def _versions_read(settings: Settings) -> set[int]:
    return {read(VIEW, settings=settings, reader=reader).version for reader in READERS}
