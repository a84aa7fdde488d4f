"""Logins of each role, made by the start of the platform: what each may see and do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from anabranch.apps.airflow.client import Client
from anabranch.core.airflow_settings import airflow_address, passwords_file
from anabranch.core.errors import BrokenState
from anabranch.core.settings import Settings
from playwright.sync_api import expect
from support.browser import browsing, chromium, log_in, our_page

pytestmark = [pytest.mark.system, pytest.mark.timeout(1_800)]
VIEW = "departure_delays"
WRONG = {"from": "2013-01-05", "to": "2013-01-01"}


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who has logged in with a password from the file of the settings."""

    address: str
    api: Client

    def status(self, method: str, path: str, body: Any = None) -> int:
        """The answer of Airflow's API."""
        answer = httpx.request(
            method, f"{self.address}/api/v2{path}", json=body, headers=self.api.authorisation(), timeout=60
        )
        return answer.status_code

    def page(self, method: str, path: str, form: dict[str, str] | None = None) -> int:
        """The answer of our page to a browser."""
        token = self.api.authorisation()["authorization"].removeprefix("Bearer ")
        cookies, headers = {"_token": token}, {"origin": self.address, "accept": "text/html"}
        with httpx.Client(base_url=self.address, cookies=cookies, headers=headers, timeout=60) as browser:
            return browser.request(method, f"/anabranch/{path}", data=form).status_code


@pytest.fixture(params=["vera", "ulla", "olga", "admin"])
def person(request: pytest.FixtureRequest, airflow_alone: Settings) -> Iterator[tuple[str, Person]]:
    name = str(request.param)
    address, known = airflow_address(airflow_alone), json.loads(passwords_file(airflow_alone).read_text())
    with Client(address, (name, known[name])) as api:
        yield name, Person(address, api)


MAY: dict[str, dict[str, bool]] = {
    "see a DAG": dict.fromkeys(("vera", "ulla", "olga", "admin"), True),
    "see our page": dict.fromkeys(("vera", "ulla", "olga", "admin"), True),
    "start a run": {"vera": False, "ulla": True, "olga": True, "admin": True},
    "change a note": {"vera": False, "ulla": True, "olga": True, "admin": True},
    "halt a migration": {"vera": False, "ulla": True, "olga": True, "admin": True},
    "pace a replay": {"vera": False, "ulla": True, "olga": True, "admin": True},
    "post an event": {"vera": False, "ulla": False, "olga": True, "admin": True},
    "see connections": {"vera": False, "ulla": False, "olga": True, "admin": True},
}


def test_what_each_may(person: tuple[str, Person]) -> None:
    name, they = person
    dag = f"/dags/reprocess_{VIEW}"
    found = {
        "see a DAG": they.status("GET", dag),
        "see our page": they.page("GET", f"views/{VIEW}"),
        "start a run": they.status("POST", f"{dag}/dagRuns", {"logical_date": None, "conf": WRONG}),
        "change a note": they.status("PATCH", f"{dag}/dagRuns/none?update_mask=note", {"note": "so"}),
        "halt a migration": they.page("POST", f"views/{VIEW}/migration", {"action": "halt", "why": "so"}),
        "pace a replay": they.page("POST", f"views/{VIEW}/v1/replay", {"action": "pace", "why": "so"}),
        "post an event": they.status("POST", "/assets/events", {"asset_id": 999_999}),
        "see connections": they.status("GET", "/connections"),
    }
    assert {what: status != 403 for what, status in found.items()} == {what: MAY[what][name] for what in MAY}, found
    assert 401 not in found.values()
    assert max(found.values()) < 500


def test_nobody_else_gets_in(airflow_alone: Settings) -> None:
    for name, password in (("vera", "vera"), ("eve", ""), ("ulla", "")):
        with (
            Client(airflow_address(airflow_alone), (name, password)) as api,
            pytest.raises(BrokenState) as refused,
        ):
            api.get("/dags")
        assert refused.value.fields["status"] in (400, 401, 422)


@pytest.mark.skipif(chromium() is None, reason="no Chromium on PATH: run infra/chromium.sh as root, or install one")
@pytest.mark.parametrize("name", ["vera", "ulla", "olga"])
def test_each_logs_in_with_a_browser_and_sees_our_page(airflow_alone: Settings, name: str) -> None:
    known = json.loads(passwords_file(airflow_alone).read_text())
    with browsing() as page:
        log_in(page, airflow_address(airflow_alone), (name, known[name]))
        expect(our_page(page).get_by_role("link", name=VIEW).first).to_be_visible()


def test_passwords_are_in_no_log(airflow_alone: Settings) -> None:
    """Airflow prints those that it makes itself."""
    known = json.loads(passwords_file(airflow_alone).read_text())
    logs = "".join(file.read_text(errors="replace") for file in airflow_alone.logs.rglob("*.log"))
    assert "airflow" in logs.lower()
    assert [name for name, password in known.items() if password in logs] == []
