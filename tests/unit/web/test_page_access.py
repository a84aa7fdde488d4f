"""Who may look, who is led to the login, what a browser is told, and what else lies at the page's address."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import anabranch
import pytest
from anabranch.apps.web._files import inside
from anabranch.apps.web.plugin import AnabranchPlugin
from anabranch.core.settings import Settings
from fastapi import FastAPI
from fastapi.testclient import TestClient
from support.page_data import VIEW, Login, declare, judge, land, speed

pytestmark = pytest.mark.unit
PAGES = ["", "views/delays", "views/delays/v1/2013-01-01", "views/delays/migration", "static/page.css",
         "data_docs/index.html", "verdicts/delays/1/run-a", "checks", "views/delays/checks", "nowhere"]  # fmt: skip
SCRIPTS = ["page.js", "idiomorph.min.js", "live.js", "tips.js", "navigation.js"]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    declare(settings, VIEW, 1)
    land(settings, 3)
    speed(settings, 3)
    judge(settings, "run-a", [], {})
    docs = settings.home / "data_docs"
    docs.mkdir(parents=True)
    (docs / "index.html").write_text("<script>alert(1)</script>")
    (settings.home / "secret.json").write_text("{}")
    return settings


@pytest.mark.parametrize("page", PAGES[:-1])
def test_nobody_looks_without_a_login(login: Login, page: str) -> None:
    answer = login(None).get(f"/anabranch/{page}")
    assert answer.status_code == 401
    assert "delays" not in answer.text


@pytest.mark.parametrize("page", PAGES[:-1])
def test_nobody_looks_without_the_right_to_read_dags(login: Login, page: str) -> None:
    assert login("NOBODY").get(f"/anabranch/{page}?dag_id=migrate").status_code == 403
    assert login("VIEWER").get(f"/anabranch/{page}").status_code == 200


def test_a_person_is_led_to_the_login_and_back(login: Login) -> None:
    answer = login(None).get("/anabranch/views/delays?year=2013", headers={"accept": "text/html,*/*"})
    assert answer.status_code == 303
    there = "/api/v2/auth/login?next=%2Fanabranch%2Fviews%2Fdelays%3Fyear%3D2013"
    assert answer.headers["location"] == there


@pytest.mark.parametrize("page", PAGES)
def test_every_answer_says_what_a_browser_may_do_with_it(login: Login, page: str) -> None:
    for role in ("VIEWER", None, "NOBODY"):
        headers = login(role).get(f"/anabranch/{page}").headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert headers["referrer-policy"] == "same-origin"
        policy = headers["content-security-policy"]
        assert "frame-ancestors 'self'" in policy
        assert "unsafe-inline" not in policy


def test_the_pages_keep_their_own_policy(client: TestClient) -> None:
    """Nothing inline, nothing from elsewhere."""
    for page in PAGES[:4]:
        html = client.get(f"/anabranch/{page}").text
        assert "default-src 'self'" in client.get(f"/anabranch/{page}").headers["content-security-policy"]
        assert " style=" not in html
        assert " onclick=" not in html
        assert "http://" not in html
        assert "https://" not in html
        own = [f'src="/anabranch/static/{name}"' for name in SCRIPTS]
        assert html.count("<script") == sum(html.count(script) for script in own) == len(SCRIPTS)


def test_data_docs_run_no_scripts(client: TestClient) -> None:
    """Those of older runs load some from elsewhere: in the origin of Airflow these could do what the reader may."""
    policy = client.get("/anabranch/data_docs/index.html").headers["content-security-policy"]
    assert policy.startswith("sandbox ")
    assert "allow-scripts" not in policy
    assert "allow-same-origin" not in policy


@pytest.mark.parametrize("path", ["../secret.json", "%2e%2e/secret.json", "a/../../secret.json", "%00", "x" * 10_000])
def test_no_file_but_data_docs(client: TestClient, path: str) -> None:
    assert client.get(f"/anabranch/data_docs/{path}").status_code == 404
    assert client.get(f"/anabranch/static/{path}").status_code == 404


def test_a_link_out_of_the_folder_is_none(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "secret.html").write_text("x")
    (tmp_path / "docs" / "link.html").symlink_to(tmp_path / "secret.html")
    assert inside(tmp_path / "docs", "link.html") is None


def test_below_a_path_of_a_proxy_every_address_has_it(client: TestClient, settings: Settings) -> None:
    from anabranch.apps.web._app import app

    proxied = FastAPI(root_path="/team/airflow")
    proxied.mount("/anabranch", app)
    behind = TestClient(proxied, base_url="http://airflow.test")
    html = behind.get("/team/airflow/anabranch/views/delays").text
    assert 'href="/team/airflow/anabranch/static/page.css"' in html
    assert 'href="/team/airflow/dags/reprocess_delays"' in html


def test_it_is_in_the_navigation_by_a_relative_address() -> None:
    """Airflow's page has a base: an absolute path would leave the one that a proxy serves it below."""
    (view,) = AnabranchPlugin.external_views
    assert (view["name"], view["destination"], view["url_route"]) == ("Anabranch", "nav", "anabranch")
    assert view["href"] == "anabranch/"
    assert view["icon"] == "anabranch/static/icon.svg"


def test_what_others_have_written_is_what_they_have_published() -> None:
    """With its licence, and unchanged: each file has the hash that stands beside its version."""
    static = Path(anabranch.__file__).parent / "apps" / "web" / "static"
    told = (static / "THIRD-PARTY.txt").read_text()
    listed = dict(re.findall(r"^([\w.-]+\.js) +sha256:([0-9a-f]{64})$", told, re.MULTILINE))
    assert set(listed) == {"idiomorph.min.js"}
    for name, digest in listed.items():
        assert hashlib.sha256((static / name).read_bytes()).hexdigest() == digest
    assert "Permission to use, copy, modify, and/or distribute" in told
