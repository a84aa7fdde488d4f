"""A day's page starts a run that does days again, and shows the runs of Airflow that concern it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import httpx
import pytest
from anabranch.apps.web._airflow_runs import AirflowApi
from anabranch.change.replay.state import PUBLISHED, ReplayState, write_state
from anabranch.core.settings import Settings
from fastapi import FastAPI, HTTPException, Request
from fastapi.middleware.gzip import GZipMiddleware
from support.page_app import TestClient, mount
from support.page_data import DAYS, VIEW, declare, land, speed, text_of

pytestmark = pytest.mark.unit
DAY = f"{DAYS[1]}"
PAGE = f"/anabranch/views/{VIEW}/v1/{DAY}"
OURS = {"sec-fetch-site": "same-origin"}
ONCE = "20261125T004400Z-0a1b2c3d"


class Airflow:
    """What Airflow's REST API answers about runs, and what it was asked to start."""

    def __init__(self) -> None:
        self.app, self.runs, self.logins = FastAPI(), list[dict[str, Any]](), list[str]()
        self.refuses: HTTPException | None = None
        self.paused = self.unknown = False
        self.app.get("/api/v2/dags/{dag}")(self.dag)
        self.app.get("/api/v2/dags/{dag}/dagRuns")(self.list)
        self.app.post("/api/v2/dags/{dag}/dagRuns")(self.start)
        self.app.get("/api/v2/dags/{dag}/dagRuns/{run}")(self.run)

    def dag(self, dag: str) -> dict[str, Any]:
        if self.unknown:
            raise HTTPException(404, f"The Dag with ID: `{dag}` was not found")
        return {"dag_id": dag, "is_paused": self.paused}

    def list(self, dag: str) -> dict[str, Any]:
        if self.refuses is not None:
            raise self.refuses
        return {"dag_runs": [run for run in reversed(self.runs) if run["dag_id"] == dag]}

    def run(self, dag: str, run: str) -> dict[str, Any]:
        return next(each for each in self.runs if (each["dag_id"], each["dag_run_id"]) == (dag, run))

    async def start(self, dag: str, request: Request) -> dict[str, Any]:
        if self.refuses is not None:
            raise self.refuses
        body = await request.json()
        if any(run["dag_run_id"] == body["dag_run_id"] for run in self.runs):
            raise HTTPException(409, "there is such a run")
        self.logins.append(request.headers.get("cookie", ""))
        return self.ran(dag, body["dag_run_id"], "queued", body["conf"])

    def ran(self, dag: str, run: str, state: str, conf: dict[str, Any], **more: Any) -> dict[str, Any]:
        entry = {"dag_id": dag, "dag_run_id": run, "state": state, "conf": conf, "note": None, "end_date": None}
        self.runs.append({**entry, **more})
        return self.runs[-1]


@pytest.fixture
def airflow() -> Airflow:
    return Airflow()


@pytest.fixture
def client(settings: Settings, monkeypatch: pytest.MonkeyPatch, airflow: Airflow) -> Iterator[TestClient]:
    declare(settings)
    land(settings, 3)
    speed(settings, 3)
    server, become = mount(settings, monkeypatch, airflow.app)
    become("USER")
    with TestClient(server, base_url="http://airflow.test", follow_redirects=False) as client:
        client.cookies.set("_token", "annas")
        yield client


def press(client: TestClient, **form: str) -> httpx.Response:
    answer: httpx.Response = client.post(PAGE, data={"from": DAY, "to": DAY, "once": ONCE} | form, headers=OURS)
    return answer


def test_a_click_does_the_day_again_in_the_readers_name(client: TestClient, airflow: Airflow) -> None:
    html = client.get(PAGE).text
    (once,) = re.findall(r'name="once" value="([^"]+)"', html)
    assert html.count(f'value="{DAY}" required') == 2, "the form is filled in"
    answer = press(client, once=once)
    assert (answer.status_code, answer.headers["location"]) == (303, PAGE)
    (run,) = airflow.runs
    assert (run["dag_id"], run["conf"]) == (f"reprocess_{VIEW}", {"from": DAY, "to": DAY, "version": 1})
    assert airflow.logins == ["_token=annas"]
    page = client.get(PAGE).text
    assert f"queued {run['dag_run_id']}" in text_of(page)
    assert f'href="/dags/reprocess_{VIEW}/runs/{run["dag_run_id"]}"' in page


def test_an_older_version_is_done_again_by_the_same_dag(
    client: TestClient, airflow: Airflow, settings: Settings
) -> None:
    """As from the command line: a run of either is on the page."""
    declare(settings, VIEW, 1, 2)
    airflow.ran(f"reprocess_{VIEW}", "by-the-command", "running", {"from": DAY, "to": DAY, "version": 1})
    assert "running by-the-command" in text_of(client.get(PAGE).text)
    assert press(client).status_code == 303
    assert (airflow.runs[-1]["dag_id"], airflow.runs[-1]["conf"]["version"]) == (f"reprocess_{VIEW}", 1)


def test_a_version_of_another_kind_is_done_again_by_its_own_dag(
    client: TestClient, airflow: Airflow, settings: Settings
) -> None:
    """The form of the newest version, which has no days any more, doesn't offer it."""
    declare(settings, "delays_whole", 2, partition_by=None)
    file = settings.project / "spark_jobs" / "views" / "delays_whole.py"
    file.write_text(file.read_text().replace("'delays_whole'", repr(VIEW)))
    assert press(client).status_code == 303
    assert airflow.runs[-1]["dag_id"] == f"reprocess_{VIEW}.v1"
    assert f'href="/dags/reprocess_{VIEW}.v1/runs/{airflow.runs[-1]["dag_run_id"]}"' in client.get(PAGE).text


def test_a_paused_dag_gets_no_run_that_waits_for_ever(client: TestClient, airflow: Airflow) -> None:
    airflow.paused = True
    answer = press(client)
    assert (answer.status_code, "DAG_PAUSED" in answer.text, airflow.runs) == (409, True, [])


def test_what_nobody_knows_to_have_failed_is_not_called_so(client: TestClient, airflow: Airflow) -> None:
    """An error of the server: the run may be there."""
    airflow.refuses = HTTPException(502, "no answer from the database")
    answer = press(client)
    assert answer.status_code == 503
    assert "may have been created" in answer.text
    assert f"/dags/reprocess_{VIEW}/runs/page__{ONCE}" in answer.text
    assert "answered 502" in client.get(PAGE).text


def test_a_dag_that_is_not_parsed_yet_is_named(client: TestClient, airflow: Airflow) -> None:
    airflow.unknown = True
    answer = press(client)
    assert (answer.status_code, "DAG_UNKNOWN" in answer.text, airflow.runs) == (503, True, [])


def test_answers_may_be_compressed_as_airflows_are(client: TestClient, airflow: Airflow) -> None:
    airflow.app.add_middleware(GZipMiddleware, minimum_size=1)
    airflow.ran(f"reprocess_{VIEW}", "works", "running", {"from": DAY, "to": DAY})
    assert "running works" in text_of(client.get(PAGE).text)


def test_many_readers_at_once_take_no_thread_from_airflow(airflow: Airflow) -> None:
    """Its own functions answer in the threads of the same process: if all of them waited, nobody would answer."""
    found = list[object]()

    async def look() -> None:
        found.append(await AirflowApi(airflow.app, {}).recent_runs("delays", lambda _: True))

    async def all_look() -> None:
        with anyio.fail_after(30):
            async with anyio.create_task_group() as readers:
                for _ in range(60):
                    readers.start_soon(look)

    anyio.run(all_look)
    assert found == [[]] * 60


def test_what_airflow_says_may_have_another_shape(client: TestClient, airflow: Airflow) -> None:
    airflow.runs.append({"dag_id": f"reprocess_{VIEW}", "state": "of a later Airflow"})
    page = client.get(PAGE)
    assert (page.status_code, "can&#39;t be read: KeyError" in page.text) == (200, True)


def test_a_form_that_is_sent_again_with_other_days_says_that_nothing_was_started(
    client: TestClient, airflow: Airflow
) -> None:
    """The back button of a browser shows the form with the key that it had."""
    assert press(client).status_code == 303
    answer = press(client, to=f"{DAYS[2]}")
    assert answer.status_code == 409
    assert [said in answer.text for said in ("RUN_EXISTS", f"page__{ONCE}", f"to={DAY}", "no run was created")] == [
        True
    ] * 4
    assert len(airflow.runs) == 1


def test_a_form_that_is_sent_twice_is_one_run(client: TestClient, airflow: Airflow) -> None:
    assert [press(client).status_code, press(client).status_code] == [303, 303]
    assert len(airflow.runs) == 1


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"from": "2013-01-09", "to": "2013-01-02"}, "RANGE_REVERSED"),
        ({"from": "", "to": ""}, "RANGE_OPEN"),
        ({"from": "", "to": DAY}, "RANGE_OPEN"),
        ({"from": "yesterday"}, "DATE_UNREADABLE"),
        ({"from": "1900-01-01"}, "RANGE_TOO_LONG"),
        ({"once": "../../x"}, "FORM_UNREADABLE"),
    ],
)
def test_what_is_no_range_is_refused_at_once(
    client: TestClient, airflow: Airflow, form: dict[str, str], said: str
) -> None:
    answer = press(client, **form)
    assert (answer.status_code, said in answer.text) == (400, True), answer.text
    assert "nothing was started" in answer.text
    assert not airflow.runs


@pytest.mark.parametrize(("role", "status"), [(None, 401), ("NOBODY", 403)])
def test_who_is_not_let_in_starts_nothing(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, airflow: Airflow, role: str | None, status: int
) -> None:
    declare(settings)
    server, become = mount(settings, monkeypatch, airflow.app)
    become(role)
    client = TestClient(server, base_url="http://airflow.test")
    assert press(client).status_code == status
    become("USER")
    evil = {"sec-fetch-site": "cross-site"}
    assert client.post(PAGE, data={"from": DAY, "to": DAY, "once": ONCE}, headers=evil).status_code == 403
    assert client.post(PAGE, data={"from": DAY}, headers={"origin": "http://evil.test"}).status_code == 403
    assert not airflow.runs


def test_airflow_decides_whether_its_user_may(client: TestClient, airflow: Airflow) -> None:
    airflow.refuses = HTTPException(403, "Forbidden")
    answer = press(client)
    assert (answer.status_code, "nothing was started" in answer.text) == (403, True)
    assert client.get(PAGE).status_code == 200, "who may not see runs sees the rest"
    airflow.refuses = HTTPException(400, "Dag with dag_id: 'x' has import errors and cannot be triggered")
    answer = press(client)
    assert answer.status_code == 400
    assert "has import errors" in answer.text
    assert "the runs of reprocess_delays can&#39;t be read" in client.get(PAGE).text


def test_who_may_not_start_runs_sees_no_button(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    declare(settings)
    land(settings, 3)
    speed(settings, 3)
    server, become = mount(settings, monkeypatch)
    become("VIEWER")
    html = TestClient(server, base_url="http://airflow.test").get(PAGE).text
    assert "<form" not in html
    assert "takes the right to start runs of the DAG reprocess_delays" in text_of(html)


def test_runs_of_this_day_are_shown_with_what_they_say(client: TestClient, airflow: Airflow) -> None:
    def ended(**ago: float) -> str:
        return (datetime.now(UTC) - timedelta(**ago)).isoformat()

    dag, mine = f"reprocess_{VIEW}", {"from": "2013-01-01", "to": "2013-01-31"}
    airflow.ran(dag, "long-ago", "success", mine, end_date=ended(hours=2))
    airflow.ran(dag, "of-another-day", "running", {"from": "2013-02-01", "to": None})
    airflow.ran(dag, "of-another-version", "running", mine | {"version": 2})
    airflow.ran(dag, "scheduled", "running", {})
    airflow.ran(dag, "nonsense", "running", {"from": ["x"]})
    airflow.ran(dag, "refused", "failed", mine, end_date=ended(minutes=5), note="Failed: <b>\nNext: ask")
    airflow.ran(dag, "works", "running", mine, note="rebuild: 3 of 31 days")
    html = client.get(PAGE).text
    again = text_of(html[html.index("Do it again") :])
    assert again.index("running works") < again.index("failed refused")
    assert "rebuild: 3 of 31 days" in again
    assert "&lt;b&gt;" in html
    for other in ("long-ago", "of-another", "scheduled", "nonsense"):
        assert other not in html


def test_a_run_of_the_future_says_why_it_stands_still(client: TestClient, airflow: Airflow) -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    mine = {"from": "2013-01-01", "to": "2013-01-31"}
    airflow.ran(f"reprocess_{VIEW}", "works", "running", mine, note="rebuild: 3 of 31", run_after=tomorrow.isoformat())
    again = text_of(client.get(PAGE).text)
    assert f"stands still until {tomorrow:%Y-%m-%d %H:%M} UTC: Airflow's clock was set back" in again


def test_a_replay_that_waits_is_on_the_page_of_replays(client: TestClient, airflow: Airflow) -> None:
    where = f"/anabranch/views/{VIEW}/replays"
    airflow.ran("replay", "of-another-view", "queued", {"view": "route_day"})
    assert "no replay of it has started. Next" in text_of(client.get(where).text)
    airflow.ran("replay", "manual__1", "queued", {"view": VIEW})
    page = text_of(client.get(where).text)
    assert "queued manual__1" in page
    assert "no replay of it has started yet" in page
    assert "of-another-view" not in page


def test_a_published_replay_counts_as_what_certified_the_view(client: TestClient, settings: Settings) -> None:
    state = ReplayState(VIEW, 1, "run-1", phase=PUBLISHED, partitions=3, equal=3, certified="flights@3", number=1)
    write_state(settings, state)
    write_state(settings, ReplayState(VIEW, 1, "run-2", partitions=3, number=2))
    assert "3 of 3" in text_of(client.get("/anabranch/").text)
    assert "3 of 3 equal at flights@3, by a replay" in text_of(client.get(f"/anabranch/views/{VIEW}").text)
