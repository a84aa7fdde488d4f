"""A run that failed, was refused or had nothing to do says why in its note, where people look; also when its processes
were killed. Each notifier of the settings is called for it, once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from email import message_from_string
from html import unescape
from typing import Any

import psutil
import pytest
from anabranch.apps.airflow.client import Client, Run
from anabranch.core.airflow_settings import airflow_address
from anabranch.core.settings import Settings
from anabranch.operate.runtime import process_registry
from anabranch.operate.runtime.secret_files import airflow_login
from playwright.sync_api import Page, expect
from support.browser import chromium, dialogue_of, field, logged_in, triggered
from support.outside_servers import Outside
from support.processes import SLOW, eventually

pytestmark = [pytest.mark.system, pytest.mark.timeout(1_800)]
VIEW = "departure_delays"
REPROCESS, REPAIR = f"reprocess_{VIEW}", f"repair_{VIEW}"
SO = {"view": VIEW, "version": 1, "why": "so"}
REFUSED: dict[str, tuple[str, dict[str, Any], str, str, str]] = {
    "reversed": (REPROCESS, {"from": "2013-01-05", "to": "2013-01-01"}, "plan",
                 "parameter to: to 2013-01-01 is before from 2013-01-05 [RANGE_REVERSED]", "swap them"),
    "half": (REPROCESS, {"to": "2013-01-01"}, "plan",
             "parameter from: to is given without from [RANGE_OPEN]", "give both"),
    "topic": (REPROCESS, {"from": "2013-01-01", "cut": "weather@1"}, "plan",
              "parameter cut: weather@1 names another topic", "write flights@12"),
    "future": (REPROCESS, {"from": "2013-01-01", "cut": "flights@999999"}, "plan",
               "cut: flights@999999 has not landed", ""),
    "replay": ("replay", {"view": VIEW, "to": "2013-01-01"}, "plan_replay", "to is given without from", "give both"),
    "readers": ("retire", SO, "retire", f"{VIEW} v1 can't be retired: ", ""),
    "migrate": ("migrate", {"view": VIEW, "why": "so", "to": 9}, "plan_migration", "9", ""),
}  # fmt: skip
"""What a form's schema can't know: the DAG, its parameters, the task, what is said, and what comes next."""


@pytest.fixture(scope="module")
def client(airflow_alone: Settings) -> Iterator[Client]:
    with Client(airflow_address(airflow_alone), airflow_login(airflow_alone)) as client:
        yield client


def ended(client: Client, dag: str, conf: dict[str, Any]) -> Run:
    return client.wait(client.trigger(dag, conf), timeout=150 * SLOW)


def note_of(client: Client, run: Run, task: str) -> str:
    (found,) = (each["note"] for each in client.task_instances(run.dag_id, run.run_id) if each["task_id"] == task)
    return str(found)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_says_why_and_what_comes_next(client: Client, outside: Outside, name: str) -> None:
    dag, conf, task, what, then = REFUSED[name]
    run = ended(client, dag, conf)
    assert (run.state, run.tasks[task]) == ("failed", "failed")
    lines = [line.rstrip() for line in run.note.splitlines()]
    assert lines[0].startswith(f"Failed in {task}: ")
    assert what in lines[0]
    (next_step,) = (line for line in lines if line.startswith("Next: "))
    assert then in next_step
    assert [line for line in lines if line.startswith("State: ")]
    assert [line.rstrip() for line in note_of(client, run, task).splitlines()] == [*lines, "(try 1)"]
    log = client.get(f"/dags/{dag}/dagRuns/{run.run_id}/taskInstances/{task}/logs/1?full_content=true")["content"]
    assert what in str(log)
    assert not [entry for entry in log if isinstance(entry, dict) and entry.get("error_detail")], "a traceback"
    assert "Traceback" not in str(log)
    notified_once(outside, run, what)


def notified_once(outside: Outside, run: Run, what: str) -> None:
    def of_run() -> list[dict[str, Any]]:
        return [post for post in outside.posted if post["run_id"] == run.run_id]

    eventually(of_run)
    (post,) = of_run()
    assert what in post["note"]
    assert what in post["text"]
    assert post["run_url"] == run.url
    subject = f"{run.dag_id} failed"  # other tests' mails may hold the same words
    eventually(lambda: [mail for mail in map(read, outside.mailed) if what in mail and subject in mail])


def read(mail: str) -> str:
    message = message_from_string(mail)
    parts = [part.get_payload(decode=True) for part in message.walk() if part.get_content_maintype() == "text"]
    return message["Subject"] + unescape("".join(part.decode() for part in parts if isinstance(part, bytes)))


def test_a_run_with_nothing_to_do_is_green_and_says_so(client: Client, outside: Outside) -> None:
    for dag, why in ((REPAIR, f"every published day of {VIEW} includes everything"), (REPROCESS, "no events have")):
        run = ended(client, dag, {})
        assert run.state == "success"
        assert run.note.startswith(f"Nothing to do: {why}")
        assert run.run_id not in [post["run_id"] for post in outside.posted]


def test_a_run_whose_process_is_killed_in_each_try_says_so(
    airflow_alone: Settings, client: Client, outside: Outside
) -> None:
    """No process of the task is left that could say anything."""
    run, killed = client.trigger(REPROCESS, {"from": "2013-01-01"}), set[str]()
    until = time.monotonic() + 150 * SLOW
    while not (now := client.run(REPROCESS, run.run_id)).finished and time.monotonic() < until:
        (task,) = (each for each in client.task_instances(REPROCESS, run.run_id) if each["task_id"] == "plan")
        killed |= {task["id"] for process in processes_of(airflow_alone, task["id"]) if kill(process)}
    assert (now.state, len(killed)) == ("failed", 4)
    run = client.wait(run)
    assert run.note.startswith("Failed in plan: its process was killed, or ended without a word, in try 4 of 4")
    assert "Next: read its log, then clear it" in run.note
    assert "(try 4)" in note_of(client, run, "plan")
    notified_once(outside, run, "its process was killed")


def processes_of(settings: Settings, task: str) -> list[psutil.Process]:
    found = []
    for process in process_registry.family(process_registry.read(settings)["airflow-scheduler"]):
        with suppress(psutil.NoSuchProcess):
            if f"airflow worker -- {task}" in " ".join(process.cmdline()):
                found.append(process)
    return found


def kill(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        process.kill()
        return True
    return False


clicks = pytest.mark.skipif(chromium() is None, reason="no Chromium on PATH: run infra/chromium.sh as root")


@pytest.fixture(scope="module")
def page(airflow_alone: Settings) -> Iterator[Page]:
    with logged_in(airflow_alone) as page:
        yield page


@clicks
def test_the_reason_is_where_people_look(client: Client, page: Page) -> None:
    """A run's page shows the first line of its note, the list of runs none; both show all of it with a click."""
    dag, conf, task, what, then = REFUSED["reversed"]
    run = ended(client, dag, conf)
    page.goto(run.url)
    first = page.get_by_text(f"Failed in {task}: {what}")
    expect(first).to_be_visible()
    assert first.evaluate(LINES_OF_THE_FIRST) == 1, "its first line is cut off"
    page.get_by_role("button", name="Edit note").click()
    says_all(page, what, then)
    page.goto(f"{client.address}/dags/{dag}/runs")
    page.get_by_role("row").filter(has_text=run.run_id).get_by_role("button", name="Note").click()
    says_all(page, what, then)


LINES_OF_THE_FIRST = """element => {
    const range = document.createRange(), walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT)
    range.selectNodeContents(walker.nextNode())
    return new Set([...range.getClientRects()].map(rectangle => rectangle.top)).size
}"""


def says_all(page: Page, what: str, then: str) -> None:
    shown = page.get_by_role("dialog")
    for text in (what, "State: nothing was started", f"Next: {then}"):
        expect(shown.get_by_text(text)).to_be_visible()
    page.keyboard.press("Escape")
    expect(shown).to_be_hidden()


@clicks
def test_a_form_asks_for_the_days_first(page: Page, client: Client) -> None:
    page.goto(client.address)
    dialogue = dialogue_of(page, f"Reprocess {VIEW}")
    expect(field(dialogue, "From (partition)")).to_be_visible()
    expect(field(dialogue, "To (partition)")).to_be_visible()
    expect(field(dialogue, "Cut")).to_be_hidden()
    dialogue.get_by_role("button", name="More").click()
    expect(field(dialogue, "Cut")).to_be_visible()


@clicks
def test_a_form_lets_500_percent_through_so_that_it_can_be_refused(page: Page, client: Client) -> None:
    """With a maximum, Airflow's form turned it into 100 without a word."""
    page.goto(client.address)
    dialogue = dialogue_of(page, "Replay a view")
    dialogue.get_by_role("button", name="More").click()
    share = dialogue.get_by_role("group").filter(has_text="Share of the cores").get_by_role("spinbutton")
    share.fill("500")
    share.press("Tab")
    expect(share).to_have_value("500")
    run = client.wait(client.run("replay", triggered(page, dialogue)), timeout=150 * SLOW)
    assert client.get(f"/dags/replay/dagRuns/{run.run_id}")["conf"]["share"] == 500
    assert (run.state, "500" in run.note.splitlines()[0]) == ("failed", True), run.note
