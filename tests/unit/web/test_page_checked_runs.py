"""The runs and their data checks, with dates, and without a network."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import pytest
from anabranch.apps.web import _checked_runs
from anabranch.certify._run_checks import CheckResult
from anabranch.certify.verdict import Verdict, verdict_path, write_verdict
from anabranch.core.settings import Settings
from anabranch.lake.layout import VersionRef
from fastapi.testclient import TestClient
from support.page_data import DAYS, VIEW, declare, judge, text_of

pytestmark = pytest.mark.unit
PASSED = CheckResult("landing flights", "offsets_unique", "Every offset is landed once.", 80_995)
FAILED = CheckResult("batch half", "key_unique", "No two rows have the same <key>.", 1_661, {DAYS[0]: 4, None: 1})
BROKEN = CheckResult("speed half", "counts_not_negative", "No count is below 0.", 5, {}, "the engine <ended>")
OLD, NEW = datetime(2026, 11, 22, 7, tzinfo=UTC), datetime(2026, 11, 23, 8, tzinfo=UTC)


@pytest.fixture
def settings(settings: Settings) -> Settings:
    declare(settings)
    judge(settings, "run-b", DAYS[1:3], {DAYS[0]: "x"}, results=(PASSED, FAILED, BROKEN), created=NEW)
    judge(settings, "run-a", DAYS[:1], {}, results=(PASSED,), created=OLD)
    os.utime(verdict_path(VersionRef(settings, VIEW, 1), "run-a"), (OLD.timestamp(), OLD.timestamp()))
    kappa = Verdict("aircraft_now", 1, "run-k", "flights@3", 7, (), {}, (), (PASSED,), whole="equal", created=OLD)
    os.utime(write_verdict(settings, kappa), (OLD.timestamp() - 1, OLD.timestamp() - 1))
    return settings


def seen(client: TestClient, path: str) -> str:
    answer = client.get(f"/anabranch/{path}")
    assert answer.status_code == 200
    assert "<key>" not in answer.text
    return text_of(answer.text)


def test_each_run_has_its_date_and_what_failed_newest_first(client: TestClient) -> None:
    page = seen(client, "checks")
    failed = "key_unique on batch half, counts_not_negative on speed half"
    newest = f"2026-11-23 08:00:00 delays v1 run-b flights@3 3 {failed} 2 1"
    older = "2026-11-22 07:00:00 delays v1 run-a flights@3 1 none 1 0"
    assert page.index(newest) < page.index(older) < page.index("aircraft_now v1 run-k flights@3 1 none 1 0")
    assert "aircraft_now" not in seen(client, "views/delays/checks")


def test_a_run_says_of_each_check_what_must_hold_and_where_it_does_not(client: TestClient) -> None:
    page = seen(client, "verdicts/delays/1/run-b")
    assert "Checks 3, 2 failed" in page
    assert "landing flights offsets_unique Every offset is landed once. 80,995 passed" in page
    assert f"No two rows have the same <key>. 1,661 5 failed : {DAYS[0]} 4, no day 1" in page
    assert "counts_not_negative No count is below 0. 5 couldn't run : the engine <ended>" in page


def test_the_overview_and_a_view_lead_there(client: TestClient) -> None:
    assert 'href="/anabranch/checks"' in client.get("/anabranch/").text
    assert 'href="/anabranch/views/delays/checks"' in client.get("/anabranch/views/delays").text
    assert 'href="/anabranch/verdicts/delays/1/run-b#checks"' in client.get("/anabranch/checks").text


def test_a_file_that_is_torn_or_no_run_s_costs_no_other_run(client: TestClient, settings: Settings) -> None:
    verdict_path(VersionRef(settings, VIEW, 1), "run-a").write_text('{"view": ')
    for folder in ("Upper/v1", "delays/vx", "delays/v0"):
        stray = settings.home / "control" / "builds" / folder / "run-<b>.verdict.json"
        stray.parent.mkdir(parents=True, exist_ok=True)
        stray.write_text("{}")
    page = seen(client, "checks")
    assert "run-a can't be read: its file is torn" in page
    assert "run-b flights@3" in page
    assert "run-<b>" not in page


def test_the_newest_runs_are_listed(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_checked_runs, "SHOWN", 1)
    page = seen(client, "checks")
    assert "run-b" in page
    assert "run-a" not in page


def test_before_the_first_run_the_next_step_is_told(client: TestClient, settings: Settings) -> None:
    declare(settings, "fresh")
    assert "No run has been checked yet. Next: anabranch reprocess fresh --missing" in seen(
        client, "views/fresh/checks"
    )
