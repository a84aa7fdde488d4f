"""Hostile texts in addresses, tables and files: never executed, never unescaped, and no page breaks over them."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from anabranch.compute.speed import status
from anabranch.compute.speed.status import ViewStatus
from anabranch.core.settings import Settings
from anabranch.serve.routes import set_route
from fastapi.testclient import TestClient
from support.page_data import DAYS, VIEW, certify, declare, judge, land, publish, speed

pytestmark = pytest.mark.unit
SCRIPT = "<script>alert(1)</script>\"'`{{7*1911}}${7*1911}"
HOSTILE = [
    SCRIPT, "../../etc/passwd", "..%2f..%2fetc", "a/b", "'; DROP TABLE certificates; --", "line\nbreak", "\x00",
    "é" * 50, "x" * 10_000, "%", "{{ 7*1911 }}", "-1", "9" * 5_000, " ", "delays ", "DELAYS", "v1", "2013-01-01'",
    "\uff12013-01-01",
]  # fmt: skip


@pytest.fixture
def settings(settings: Settings) -> Settings:
    declare(settings, VIEW, 1, doc=f"Docs {SCRIPT}")
    land(settings, 3)
    speed(settings, 3)
    return settings


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize(
    "path", ["views/{}", "views/{}/migration", "views/delays/v1/{}", "views/delays/v{}/2013-01-01",
             "views/delays?year={}", "verdicts/{}/1/run-a", "verdicts/delays/{}/run-a", "verdicts/delays/1/{}"],
)  # fmt: skip
def test_no_address_breaks_a_page(client: TestClient, path: str, text: str) -> None:
    answer = client.get("/anabranch/" + path.format(quote(text, safe="%" if "%" in text else "")))
    assert answer.status_code in (400, 404) or (path.endswith("year={}") and answer.status_code == 200)
    assert "<script>alert" not in answer.text
    assert "13377" not in answer.text
    assert len(answer.text) < 40_000


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_no_address_changes_anything(client: TestClient, text: str) -> None:
    answer = client.post(
        f"/anabranch/views/{quote(text, safe='')}/migration",
        data={"action": "rollback", "why": "so"},
        headers={"sec-fetch-site": "same-origin"},
    )
    assert answer.status_code in (400, 404, 405)


def test_what_others_wrote_is_shown_as_text(client: TestClient, settings: Settings) -> None:
    publish(settings, SCRIPT, DAYS[:1], 2)
    certify(settings, SCRIPT, DAYS[:2], 3, differs=DAYS[1:2])
    certify(settings, "run-a", DAYS[1:2], 3, differs=DAYS[1:2])
    judge(settings, "run-a", [], {DAYS[1]: SCRIPT}, report=f"delays v1: 1 rows differ on {DAYS[1]}\n{SCRIPT}")
    set_route(settings, VIEW, {1: 100}, by=SCRIPT, why=SCRIPT)
    status.write(settings, [ViewStatus(VIEW, 1, "failed", cut=SCRIPT, error=SCRIPT), ViewStatus(SCRIPT, 1, "failed")])
    for page in ("", "views/delays", "views/delays/migration", *(f"views/delays/v1/{day}" for day in DAYS[:2]),
                 "verdicts/delays/1/run-a"):  # fmt: skip
        answer = client.get(f"/anabranch/{page}")
        assert answer.status_code == 200
        assert "alert(1)" in answer.text, f"{page} shows nothing of it: this test says nothing"
        assert "<script>alert" not in answer.text
        assert "{{7*1911}}" in answer.text


def test_names_in_the_lake_that_are_no_names_are_left_out(client: TestClient, settings: Settings) -> None:
    for name in ("<script>alert(1)<", "..x", "Upper", "a b"):
        (settings.lake / "views" / name / "v1" / "speed").mkdir(parents=True)
    (settings.lake / "views" / "delays" / "vx").mkdir()
    (settings.lake / "views" / "delays" / "v0").mkdir()
    answer = client.get("/anabranch/")
    assert answer.status_code == 200
    assert "<script>alert" not in answer.text
    assert "Upper" not in answer.text


def test_a_route_that_says_nonsense_of_its_migration_breaks_its_own_view_only(
    client: TestClient, settings: Settings
) -> None:
    set_route(settings, VIEW, {1: 100}, by="anna", why="so", migration=json.loads('{"state": "done", "new": "<b>"}'))
    assert client.get("/anabranch/").status_code == 200
    answer = client.get("/anabranch/views/delays/migration")
    assert answer.status_code == 200
    assert "KeyError" in answer.text
