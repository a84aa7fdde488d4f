"""A migration on its page: what it says, and its buttons: who may press them, from where, and what comes of it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from anabranch.apps.web import _migration_actions
from anabranch.change.migrate import migration
from anabranch.change.migrate.migration import advance, start
from anabranch.change.migrate.migration_record import Migration, migration_of
from anabranch.change.migrate.promotion_checks import Expectations
from anabranch.core.errors import AnabranchError, BadInput, BrokenState, TryAgain
from anabranch.core.settings import Settings
from anabranch.lake import CommitMetadata, commits
from anabranch.lake.cut import Cut
from anabranch.lake.files import stage_arrow
from anabranch.lake.layout import VersionRef
from anabranch.serve import routes
from anabranch.serve.routes import route_history, set_route
from fastapi.testclient import TestClient
from support.page_data import NEW, OLD, VIEW, Login, at, begin_migration, declare, text_of

pytestmark = pytest.mark.unit
PAGE = "/anabranch/views/delays/migration"
OURS = {"sec-fetch-site": "same-origin"}


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """5 % of the readers have v2."""
    folder = tmp_path_factory.mktemp("begun")
    settings = Settings(home=folder / "home", project=folder / "project")
    begin_migration(settings)
    return folder


@pytest.fixture
def settings(settings: Settings, begun: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(routes, "PATIENCE", 0.3)
    shutil.copytree(begun, settings.home.parent, dirs_exist_ok=True)
    return settings


def press(
    client: TestClient, action: str, why: str = "enough", headers: Mapping[str, str] = OURS, **more: str
) -> httpx.Response:
    form = {"action": action, "why": why, **more}
    answer: httpx.Response = client.post(PAGE, data=form, headers=dict(headers))
    return answer


def state(settings: Settings) -> Migration:
    found = migration_of(settings, VIEW)
    assert found is not None
    return found[1]


def buttons(client: TestClient) -> list[str]:
    html = client.get(PAGE).text
    return [action for action in ("hasten", "halt", "resume", "rollback") if f'value="{action}"' in html]


def test_it_says_where_it_stands_by_whom_and_why(client: TestClient) -> None:
    html = client.get(PAGE).text
    page = text_of(html)
    assert "v1 to v2: moving 5 % have v2" in page
    assert "Begun by bert" in page
    assert "v2 counts by carrier" in page
    assert "Meant to differ delayed" in page
    assert page.index("v1 95 %, v2 5 %") < page.index("v1 99 %, v2 1 %") < page.index("v1 100 %")
    assert html.count('<path class="share share') == 2
    assert "v1 95 % v2 5 % History of the route" in page, "the legend of the plot"


def test_the_plot_has_the_share_of_each_version_over_time(settings: Settings) -> None:
    from anabranch.apps.web._charts import Axis, shares

    begin, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
    half = begin + (end - begin) / 2
    history = [
        routes.Route(VIEW, 1, {1: 100}, begin, "anna", "so"),
        routes.Route(VIEW, 2, {1: 75, 2: 25}, half, "anna", "so"),
    ]
    old, new = shares(history, Axis(begin, end))
    assert old.path == "M30 18 L410 18 L410 18 L790 18 L790 168 L410 168 L410 218 L30 218Z"
    assert new.path == "M30 218 L410 218 L410 168 L790 168 L790 218 L410 218 L410 218 L30 218Z"
    assert (old.label_y, new.label_y) == (93, 193)


def test_halt_resume_and_roll_back_in_the_users_name(client: TestClient, settings: Settings) -> None:
    assert buttons(client) == ["hasten", "halt", "rollback"]
    answer = press(client, "halt", "a  dashboard\nlooks odd")
    assert (answer.status_code, answer.headers["location"]) == (303, PAGE)
    assert state(settings).state == "halted"
    newest = route_history(settings, VIEW)[-1]
    assert (newest.changed_by, newest.why) == ("anna", "a dashboard looks odd")
    assert buttons(client) == ["hasten", "resume", "rollback"]
    assert press(client, "resume").status_code == 303
    assert state(settings).state == "moving"
    assert press(client, "hasten").status_code == 303
    assert state(settings).hastened
    assert press(client, "rollback").status_code == 303
    assert (state(settings).state, state(settings).share) == ("rolled back", 0)
    assert buttons(client) == []


def refused(answer: httpx.Response, settings: Settings, status: int) -> str:
    """The refusal in words; nothing was changed by it."""
    assert answer.status_code == status, answer.text
    assert state(settings).state == "moving"
    assert len(route_history(settings, VIEW)) == 3
    return text_of(answer.text)


@pytest.mark.parametrize(("role", "status"), [(None, 401), ("NOBODY", 403), ("VIEWER", 403)])
def test_only_who_may_edit_runs_of_migrate_changes_anything(
    login: Login, settings: Settings, role: str | None, status: int
) -> None:
    for action in ("halt", "hasten", "rollback"):
        refused(press(login(role), action), settings, status)
    refused(
        login(role).post(PAGE + "?dag_id=other", data={"action": "halt", "why": "x"}, headers=OURS), settings, status
    )


def test_who_may_not_change_it_sees_no_buttons(login: Login) -> None:
    page = login("VIEWER").get(PAGE).text
    assert "<form" not in page
    assert "the right to edit runs of the DAG migrate" in page


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "none"}, 403),
        ({"sec-fetch-site": "cross-site", "origin": "http://airflow.test"}, 403),
        ({"origin": "http://evil.test"}, 403),
        ({"origin": "http://airflow.test.evil.test"}, 403),
        ({"origin": "http://airflow.test:81"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://[::1"}, 403),
        ({"origin": "", "authorization": "Bearer "}, 403),
        ({"referer": "http://airflow.test/anabranch/"}, 403),
        ({}, 403),
        ({"authorization": "Basic YTpi"}, 403),
        ({"sec-fetch-site": "same-origin"}, 303),
        ({"origin": "http://airflow.test"}, 303),
        ({"origin": "https://airflow.test"}, 303),
        ({"authorization": "Bearer token-of-a-script"}, 303),
        ({"authorization": "Bearer token-of-a-script", "origin": "http://evil.test"}, 303),
    ],
)
def test_a_page_of_another_site_changes_nothing(
    client: TestClient, settings: Settings, headers: dict[str, str], status: int
) -> None:
    answer = press(client, "halt", headers=headers)
    if status == 303:
        assert answer.status_code == 303
        assert state(settings).state == "halted"
    else:
        assert "changes are accepted only from this page" in refused(answer, settings, status)


def test_the_base_address_of_airflow_is_ours_behind_a_proxy_that_changes_the_host(
    client: TestClient, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.configuration import conf

    monkeypatch.setattr(conf, "get", lambda *_, **__: "https://airflow.example/team")
    refused(press(client, "halt", headers={"origin": "https://example"}), settings, 403)
    assert press(client, "halt", headers={"origin": "https://airflow.example"}).status_code == 303


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "HEAD"])
def test_nothing_but_a_form_that_is_sent_changes_anything(client: TestClient, settings: Settings, method: str) -> None:
    client.request(method, PAGE + "?action=rollback&why=so", headers=OURS)
    assert len(route_history(settings, VIEW)) == 3


@pytest.mark.parametrize(
    "form",
    [
        {"nothing": "of ours"},
        {"action": "halt"},
        {"action": "halt", "why": " \n "},
        {"action": "halt", "why": "x" * 501},
        {"action": "halt", "why": "nul\0"},
        {"action": "halt", "why": "bell\x07"},
        {"action": "halt", "why": "turned\u202eround"},
        {"action": "start", "why": "x"},
        {"action": "__class__", "why": "x"},
        {"action": "<script>", "why": "x"},
        {"action": "halt", "why": "x", "after": "three"},
        {f"a{n}": "x" for n in range(20)},
    ],
)
def test_a_form_that_is_none_of_ours_is_refused(client: TestClient, settings: Settings, form: dict[str, str]) -> None:
    answer = client.post(PAGE, data=form, headers=OURS)
    assert "nothing was changed" in refused(answer, settings, 400)
    assert "<script>" not in answer.text


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"action=halt&why=" + b"x" * 20_000, "application/x-www-form-urlencoded", 413),
        (b"action=halt&why=%ff%fe", "application/x-www-form-urlencoded", 400),
        (b"action=halt&why=\xff", "application/x-www-form-urlencoded", 400),
        (b'{"action": "halt", "why": "x"}', "application/json", 415),
        (b"action=halt&why=x", "text/plain", 415),
    ],
)
def test_a_body_that_is_no_form_is_refused(
    client: TestClient, settings: Settings, body: bytes, kind: str, status: int
) -> None:
    refused(client.post(PAGE, content=body, headers={**OURS, "content-type": kind}), settings, status)


def test_the_reason_is_shown_as_text(client: TestClient) -> None:
    press(client, "halt", "<script>alert('x')</script> & \"so\"")
    html = client.get(PAGE).text
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; &#34;so&#34;" in html


def test_a_step_that_was_taken_since_the_page_was_made_is_not_hastened(client: TestClient, settings: Settings) -> None:
    assert '<input type="hidden" name="after" value="3">' in client.get(PAGE).text
    advance(settings, OLD, NEW, by="run move-1")
    answer = press(client, "hasten", after="3")
    assert answer.status_code == 409
    said = text_of(answer.text)
    assert "ROUTE_MOVED" in said
    assert "it was v1 95 %, v2 5 %, then v1 75 %, v2 25 % (by run move-1: " in said
    assert not state(settings).hastened
    assert press(client, "rollback", after="3").status_code == 303, "back is always right"


@pytest.mark.parametrize("action", ["hasten", "halt"])
def test_a_step_that_is_taken_between_check_and_change_is_not_changed_either(
    client: TestClient, settings: Settings, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    check = _migration_actions._check_route_unchanged

    def then_a_step(*arguments: Any) -> None:
        check(*arguments)
        advance(settings, OLD, NEW, by="run move-1")

    monkeypatch.setattr(_migration_actions, "_check_route_unchanged", then_a_step)
    answer = press(client, action, after="3")
    assert (answer.status_code, "ROUTE_MOVED" in answer.text) == (409, True), answer.text
    assert (state(settings).state, state(settings).hastened, state(settings).share) == ("moving", False, 25)


def test_a_change_that_can_not_be_made_says_why(client: TestClient, settings: Settings) -> None:
    press(client, "rollback")
    answer = press(client, "halt")
    assert answer.status_code == 409
    page = text_of(answer.text)
    assert "there is no active migration: rolled back (enough) NOT_MOVING" in page
    assert "Now: nothing was changed" in page


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (TryAgain("VERSION_BEHIND", "v1 is <behind>", state="nobody was moved", next_step="wait"), 503),
        (BadInput("SHARES_WRONG", "shares are <wrong>"), 400),
        (BrokenState("NOTES_LOST", "the table is <broken>"), 503),
    ],
)
def test_each_kind_of_error_has_its_status(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, error: AnabranchError, status: int
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(migration, "halt", fail)
    answer = press(client, "halt")
    assert answer.status_code == status
    assert error.code in answer.text
    assert "&lt;" in answer.text


def test_what_nobody_foresaw_is_a_page_without_a_trace(login: Login, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("<oops>")

    monkeypatch.setattr(migration, "halt", fail)
    quiet = TestClient(login("USER").app, base_url="http://airflow.test", raise_server_exceptions=False)
    answer = press(quiet, "halt")
    assert answer.status_code == 500
    assert "RuntimeError: &lt;oops&gt;" in answer.text
    assert "Traceback" not in answer.text
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_without_a_migration(client: TestClient, settings: Settings) -> None:
    press(client, "rollback")
    set_route(settings, VIEW, {1: 90, 2: 10}, by="carl", why="by hand")
    page = text_of(client.get(PAGE).text)
    assert "A person leads the readers: v1 90 %, v2 10 %, by carl: by hand" in page
    assert buttons(client) == []
    declare(settings, "other", 1)
    assert "Nobody has set a route" in client.get("/anabranch/views/other/migration").text


def test_a_migration_is_taken_back_also_after_another_version_was_retired(
    client: TestClient, settings: Settings
) -> None:
    moving = route_history(settings, VIEW)[-1].migration or {}
    set_route(settings, VIEW, {2: 100}, by="bert", why="the last step", migration={**moving, "state": "done"})
    set_route(settings, VIEW, {2: 100}, by="carl", why="a dead end", retired={3})
    page = text_of(client.get(PAGE).text)
    assert "v1 to v2: done" in page
    assert "Begun by bert" in page
    assert buttons(client) == ["rollback"]
    set_route(settings, VIEW, {2: 100}, by="carl", why="nobody reads it", retired={1, 3})
    assert buttons(client) == [], "there is nothing to go back to"


def test_a_migration_that_came_after_another_has_its_own_beginning(client: TestClient, settings: Settings) -> None:
    press(client, "rollback")
    start(settings, OLD, NEW, by="dora", why="once more", soak_seconds=0)
    assert "Begun by dora" in text_of(client.get(PAGE).text)


def test_what_the_new_version_takes_away_stands_first_and_says_whether_it_was_declared(
    client: TestClient, settings: Settings
) -> None:
    assert "Breaking" not in client.get(PAGE).text
    for version, names in ((1, {"gone": "x", "kept": 1}), (2, {"kept": 1})):
        uri = VersionRef(settings, "orders", version).speed_table
        rows = pa.table({name: [value] for name, value in names.items()})
        table = commits.create(uri, rows.schema, [], CommitMetadata("orders/speed", "create", Cut()))
        commits.replace(table, stage_arrow(rows, uri, f"r{version}", None), CommitMetadata("o", "c:3", at(3)), None)
    page = text_of(client.get("/anabranch/views/orders/migration").text)
    told = "Breaking for readers of v1, in v2: gone is removed not declared"
    assert told in page
    assert "A migration to v2 is refused until they are declared, as its changed columns." in page
    made = Migration("orders", 1, 2, (50, 100), 0.0, Expectations(("gone",)))
    set_route(settings, "orders", {1: 100}, by="anna", why="so", migration=made.to_json())
    page = text_of(client.get("/anabranch/views/orders/migration").text)
    assert "gone is removed declared" in page
    assert page.index("gone is removed declared") < page.index("v1 to v2: moving")
