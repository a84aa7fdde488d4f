"""A replay on its page: how far it is, at which pace, how it ended, and who may change it."""

from __future__ import annotations

import time
from dataclasses import replace

import httpx
import pytest
from anabranch.change.replay.rate_limit import Pace
from anabranch.change.replay.state import (
    CANCELLED,
    PUBLISHED,
    ControlRequest,
    ReplayState,
    list_states,
    read_control,
    write_state,
)
from anabranch.change.run_progress import REBUILD, RunProgress, write_progress
from anabranch.core.settings import Settings
from anabranch.lake.layout import VersionRef
from fastapi.testclient import TestClient
from support.page_data import VIEW, Login, declare, text_of

pytestmark = pytest.mark.unit
PAGE, STEER = "/anabranch/views/delays/replays", "/anabranch/views/delays/v1/replay"
OURS = {"sec-fetch-site": "same-origin"}
NOW = ReplayState(
    VIEW, 1, "run-1", days="2013-01-01..2013-01-31", cut="flights@3", done=500, total=2_000, seconds=10.0,
    event_seconds=86_400.0, share=0.5, started_ms=1, newest_day="2013-01-09",
)  # fmt: skip


@pytest.fixture
def begun(settings: Settings) -> Settings:
    declare(settings)
    write_state(settings, NOW)
    return settings


def press(client: TestClient, action: str, **form: str) -> httpx.Response:
    answer: httpx.Response = client.post(STEER, data={"action": action, **form}, headers=OURS)
    return answer


def wanted(settings: Settings) -> ControlRequest:
    return read_control(settings, NOW)


def test_it_says_how_far_and_how_fast(client: TestClient, begun: Settings) -> None:
    html = client.get(PAGE).text
    page = text_of(html)
    assert "streaming 2013-01-01..2013-01-31" in page
    assert "25 %" in page
    assert "500 of 2,000" in page
    assert "50, 8,640 times real time" in page
    assert "about 30 s, then certificates" in page
    assert "Events up to 2013-01-09, 8 of 31 days" in page
    assert 'data-every="5"' in html
    view = client.get("/anabranch/views/delays").text
    assert view.count("/views/delays/replays") == 1
    assert "at work replay: streaming; 500 of 2,000 records (25%)" in text_of(view)


def test_how_those_ended_that_have(client: TestClient, begun: Settings) -> None:
    said = "published: 31 of 31 partitions equal at flights@3; <b>2</b> rows"
    write_state(begun, ReplayState(VIEW, 1, NOW.run, phase=PUBLISHED, said=said, started_ms=1))
    html = client.get(PAGE).text
    assert "31 of 31 partitions equal" in html
    assert "<b>2</b>" not in html, "everything is escaped"
    assert "<form" not in html


def test_one_that_was_never_replayed(client: TestClient, settings: Settings) -> None:
    declare(settings)
    assert "no replay of it has started. Next" in text_of(client.get(PAGE).text)
    assert client.get("/anabranch/views/nobody/replays").status_code == 404


def test_its_pace_and_its_end_are_a_click(client: TestClient, begun: Settings) -> None:
    answer = press(client, "pace", share="12.5", speed="100")
    assert (answer.status_code, answer.headers["location"]) == (303, PAGE)
    assert wanted(begun) == ControlRequest(Pace(0.125, 100))
    assert "12.5 % at most, 100.0 times real time at most" in text_of(client.get(PAGE).text)
    assert press(client, "pace", share="", speed="0").status_code == 303
    assert wanted(begun) == ControlRequest(Pace(0.125)), "what isn't said stays as it was asked for"

    assert press(client, "cancel").status_code == 303
    (ended,) = list_states(VersionRef(begun, VIEW, 1))
    assert (ended.phase, "cancelled by anna" in ended.said) == (CANCELLED, True), "nothing ran: it ends at once"


def test_a_button_of_a_replay_that_has_ended_steers_no_other(client: TestClient, begun: Settings) -> None:
    assert f'<input type="hidden" name="run" value="{NOW.run}">' in client.get(PAGE).text
    write_state(begun, replace(NOW, phase=PUBLISHED))
    other = write_state(begun, replace(NOW, run="run-2", number=2))
    for action in ("cancel", "pace"):
        answer = press(client, action, share="100", run=NOW.run)
        assert (answer.status_code, "REPLAY_CHANGED" in answer.text) == (409, True), answer.text
        assert "run-2 is active now" in answer.text
    assert read_control(begun, other) == ControlRequest(Pace(0.5))
    assert press(client, "pace", share="100", run="run-2").status_code == 303
    assert press(client, "cancel", run="run-2").status_code == 303


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ({"action": "pace", "share": "0"}, 400),
        ({"action": "pace", "share": "500"}, 400),
        ({"action": "pace", "share": "nan"}, 400),
        ({"action": "pace", "share": "50; rm"}, 400),
        ({"action": "pace", "speed": "-1"}, 400),
        ({"action": "pace", "speed": "inf"}, 400),
        ({"action": "publish"}, 400),
        ({}, 400),
    ],
)
def test_what_is_no_pace_changes_nothing(
    client: TestClient, begun: Settings, form: dict[str, str], status: int
) -> None:
    answer = client.post(STEER, data=form or {"nothing": "of ours"}, headers=OURS)
    assert answer.status_code == status, answer.text
    assert wanted(begun) == ControlRequest(Pace(0.5))
    assert client.post(STEER, content=b"x", headers=OURS).status_code == 415
    assert client.post("/anabranch/views/delays/v9/replay", data={"action": "pace"}, headers=OURS).status_code == 404


@pytest.mark.parametrize(("role", "status"), [(None, 401), ("NOBODY", 403), ("VIEWER", 403)])
def test_only_who_may_edit_runs_of_replay_changes_anything(
    login: Login, begun: Settings, role: str | None, status: int
) -> None:
    for action in ("pace", "cancel"):
        assert press(login(role), action, share="10").status_code == status
    assert (
        login("USER").post(STEER, data={"action": "cancel"}, headers={"origin": "http://evil.test"}).status_code == 403
    )
    assert wanted(begun) == ControlRequest(Pace(0.5))
    assert [s.ended for s in list_states(VersionRef(begun, VIEW, 1))] == [False]


def test_who_may_not_change_it_sees_no_buttons(login: Login, begun: Settings) -> None:
    page = login("VIEWER").get(PAGE).text
    assert "<form" not in page
    assert "the right to edit runs of the DAG replay" in page


def test_without_one_under_way_there_is_nothing_to_steer(client: TestClient, settings: Settings) -> None:
    declare(settings)
    answer = press(client, "cancel")
    assert answer.status_code == 400
    assert "NO_REPLAY" in answer.text


def test_a_rebuild_that_works_is_on_the_page_of_its_view(client: TestClient, settings: Settings) -> None:
    declare(settings, VIEW, 1, 2)
    now = RunProgress(VIEW, 2, "run-1", REBUILD, 31, 26_314, time.time() - 21, written=12, estimated=65.0)
    write_progress(settings, replace(now, updated=time.time()))
    html = client.get("/anabranch/views/delays").text
    assert "v2 at work rebuild: 12 of 31 days written, 26,314 events; for 21 s, about 44 s left" in text_of(html)
    assert 'data-every="5"' in html
