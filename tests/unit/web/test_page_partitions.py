"""A view's calendar, and the story of one of its partitions."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from types import SimpleNamespace

import pytest
from anabranch.apps.web import _pages
from anabranch.apps.web._certificate_cache import CertificateSummary
from anabranch.apps.web._charts import year_of
from anabranch.apps.web._days import Day
from anabranch.apps.web._dirty_days import Lookup, LookupResult, NewEvents
from anabranch.change.run_names import record_run
from anabranch.core.settings import Settings
from fastapi.testclient import TestClient
from support.page_data import DAYS, VIEW, certify, changed, declare, judge, kappa, land, publish, speed, text_of

pytestmark = pytest.mark.unit
EQUAL, DIRTY, DIFFERS, REFUSED, ONLY = DAYS
ELSEWHERE, UNSEEN = date(2012, 12, 31), date(2012, 12, 30)
REPORT = f"""delays v1: 1 rows differ on {DIFFERS + timedelta(days=20)}
│ LGA    │ changed │ flights │ 3     │ 2        │ flights[1]@43    │
delays v1: 1 rows differ on {DIFFERS}
┃ origin ┃ row is  ┃ column  ┃ speed ┃ expected ┃ source events    ┃
│ <JFK>  │ changed │ flights │ 8     │ 7        │ flights[1]@42    │"""


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """A day in each state."""
    declare(settings, VIEW, 1)
    land(settings, 1, 2, 3)
    speed(settings, 3, [*DAYS, ELSEWHERE])
    shown = publish(settings, "run-a", [EQUAL, DIRTY, DIFFERS], 2)
    certify(settings, "run-a", [EQUAL, DIRTY, DIFFERS], 2, created=datetime(2026, 11, 22, 7, 0, tzinfo=UTC))
    publish(settings, "run-b", [EQUAL], 3, shown)
    certify(settings, "run-b", [EQUAL, DIFFERS, REFUSED], 3, differs=[DIFFERS], late=9)
    held = {DIFFERS: "the halves differ at flights@3", REFUSED: "check key_unique on batch failed for 4"}
    judge(settings, "run-b", [EQUAL], held, report=REPORT, late_changes=(changed(EQUAL),))
    return settings


@pytest.fixture
def client(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    looked = LookupResult({DIRTY: NewEvents(5, 4, "flights@2")}, 7, {ELSEWHERE: 2, UNSEEN: 1, EQUAL: 9})
    lookup = Lookup(find=lambda settings, keys: dict.fromkeys(keys, looked))
    monkeypatch.setattr(_pages, "LOOKUP", lookup)
    return client


def known(client: TestClient, path: str) -> str:
    """The page, once what is looked up beside it is there."""
    client.get(path)
    _pages.LOOKUP.wait(5)
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    return str(answer.text)


def squares(html: str) -> dict[str, str]:
    """The state of each day that is linked."""
    found = re.findall(
        r'href="/anabranch/views/delays/v1/([-0-9]{10})" aria-label="[^"]*" data-tip="[^"]*"><rect class="(\w+)"', html
    )
    return dict(found)


def test_each_day_has_its_state_and_leads_to_its_story(client: TestClient) -> None:
    assert squares(known(client, "/anabranch/views/delays")) == {
        f"{EQUAL}": "equal",
        f"{DIRTY}": "dirty",
        f"{DIFFERS}": "held",
        f"{REFUSED}": "held",
        f"{ONLY}": "speed",
    }


def test_days_that_were_never_published_and_have_late_events_are_marked_whether_or_not_they_have_rows(
    client: TestClient,
) -> None:
    page = known(client, "/anabranch/views/delays?year=2012")
    assert squares(page) == {f"{ELSEWHERE}": "lacking", f"{UNSEEN}": "lacking"}
    assert "Late events in no half 7" in text_of(page)
    assert "never published: its late events are in no half 2" in text_of(page), "the legend"
    story = text_of(known(client, f"/anabranch/views/delays/v1/{UNSEEN}"))
    assert "never published: its late events are in no half; 1 of them" in story
    assert "Readers get it from nowhere" in story
    assert "no half; 9" not in text_of(known(client, f"/anabranch/views/delays/v1/{EQUAL}")), "published since"


def test_the_page_does_not_wait_for_dirty_days(client: TestClient) -> None:
    page = client.get("/anabranch/views/delays").text
    assert "being looked up" in page
    assert squares(page)[f"{DIRTY}"] == "equal"
    assert "being looked up" not in known(client, "/anabranch/views/delays")


def test_a_day_that_was_published_anew_is_not_called_dirty_by_an_old_answer(
    client: TestClient, settings: Settings
) -> None:
    known(client, "/anabranch/views/delays")
    publish(settings, "run-r", [DIRTY], 3)
    assert squares(client.get("/anabranch/views/delays").text)[f"{DIRTY}"] == "equal"


def test_the_calendar_is_as_long_as_the_days_that_are_known(client: TestClient) -> None:
    """From Tuesday, the first of the year, to Saturday: of their week only Sunday is unknown."""
    page = known(client, "/anabranch/views/delays")
    assert page.count('<rect class="nothing"') == 1
    assert 'viewBox="0 0 58 116"' in page
    assert ">Jan</text>" in page
    assert ">Feb</text>" not in page


@pytest.mark.parametrize(
    ("first", "last", "width", "months"),
    [
        ("2013-01-01", "2013-12-31", 30 + 53 * 14, "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec"),
        ("2012-01-01", "2012-12-31", 30 + 54 * 14, "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec"),
        ("2013-01-30", "2013-02-03", 30 + 28, "Jan"),
        ("2013-01-16", "2013-02-10", 30 + 3 * 14 + 28, "Jan Feb"),
        ("9999-12-31", "9999-12-31", 30 + 28, "Dec"),
        ("0001-01-01", "0001-01-01", 30 + 28, "Jan"),
    ],
)
def test_a_calendar_names_its_months_without_one_over_another(first: str, last: str, width: int, months: str) -> None:
    begin, end = date.fromisoformat(first), date.fromisoformat(last)
    year = year_of(begin.year, {day: Day(day) for day in (begin, end)})
    assert (year.width, " ".join(name for _, name in year.months)) == (width, months)
    assert {begin, end} <= {square.day for square in year.squares if square.known}
    places = [x for x, _ in year.months]
    assert all(right - left >= 28 for left, right in pairwise(places))


def test_another_year(client: TestClient) -> None:
    assert f"views/delays/v1/{ELSEWHERE}" not in client.get("/anabranch/views/delays").text
    assert f"views/delays/v1/{ELSEWHERE}" in client.get("/anabranch/views/delays?year=2012").text


def test_the_legend_counts(client: TestClient) -> None:
    assert "the paths differ, or it was held back 2 speed only 1" in text_of(known(client, "/anabranch/views/delays"))


def test_the_story_of_a_day_that_was_published_twice(client: TestClient) -> None:
    page = text_of(known(client, f"/anabranch/views/delays/v1/{EQUAL}"))
    assert "published, both paths equal; published at flights@3; 9 late events in its certificate" in page
    assert "Readers get it from batch, at flights@3" in page
    newest, oldest = page.index("run-b verdict published at flights@3"), page.index("run-a published at flights@2")
    assert newest < oldest
    assert "1 rows added, 2 changed, 0 removed" in page
    assert "2026-11-22 07:00:00 equal flights@2 48 48 0" in page


def test_what_has_landed_since_is_told(client: TestClient) -> None:
    assert "5 events, 4 of them late , at flights@3" in text_of(known(client, f"/anabranch/views/delays/v1/{DIRTY}"))


def test_the_difference_with_both_values_and_the_events_behind_it_as_it_was_stored(client: TestClient) -> None:
    page = known(client, f"/anabranch/views/delays/v1/{DIFFERS}")
    assert "&lt;JFK&gt;  │ changed │ flights │ 8     │ 7        │ flights[1]@42" in page
    assert "flights[1]@43" not in page, "another day's difference"
    assert "held back: the halves differ at flights@3" in page
    assert "Readers get it from speed" in text_of(page)


def test_a_day_that_a_check_held_back_says_which(client: TestClient) -> None:
    page = text_of(known(client, f"/anabranch/views/delays/v1/{REFUSED}"))
    assert "held back: check key_unique on batch failed for 4" in page


def test_a_difference_that_nobody_wrote_down_names_the_command(client: TestClient, settings: Settings) -> None:
    certify(settings, "run-c", [ONLY], 3, differs=[ONLY])
    page = text_of(known(client, f"/anabranch/views/delays/v1/{ONLY}"))
    assert f"anabranch differences delays --version 1 --partition {ONLY}" in page


def test_a_verdict_that_is_torn_costs_its_own_words_only(client: TestClient, settings: Settings) -> None:
    for path in settings.home.rglob("*.verdict.json"):
        path.write_text('{"view": ')
    page = text_of(known(client, f"/anabranch/views/delays/v1/{DIFFERS}"))
    assert "DIFFERS" in page


def test_a_kappa_view_has_one_story(client: TestClient, settings: Settings) -> None:
    kappa(settings, 3, "aircraft_now")
    whole = client.get("/anabranch/views/aircraft_now/v1/whole").text
    assert "none yet: it is made on request. Next: anabranch certify aircraft_now --version 1" in text_of(whole)
    declare(settings, "aircraft_now", partition_by=None)
    page = client.get("/anabranch/views/aircraft_now").text
    assert "Certify, or replay" in text_of(page)
    assert "/dags/reprocess_aircraft_now" in page
    assert "repair_aircraft_now" not in page
    assert "The whole view : speed only" in text_of(page)
    certify(settings, "run-k", [None], 3, view="aircraft_now")
    page = client.get("/anabranch/views/aircraft_now").text
    assert "/views/aircraft_now/v1/whole" in page
    assert "The whole view : both paths equal Certify" in text_of(page)
    assert "equal flights@3" in text_of(client.get("/anabranch/views/aircraft_now/v1/whole").text)
    assert client.get(f"/anabranch/views/aircraft_now/v1/{EQUAL}").status_code == 404
    certify(settings, "run-l", [None], 3, view="aircraft_now", differs=[None])
    whole = text_of(client.get("/anabranch/views/aircraft_now/v1/whole").text)
    assert "DIFFERS flights@3" in whole
    assert "publication is known" not in whole, "a kappa view is served by its stream"


@pytest.mark.parametrize(
    "path",
    ["views/nothing", "views/delays/v7/2013-01-01", "views/delays/v1/2013-02-30", "views/delays/v1/2031-01-01",
     "views/delays/vx/2013-01-01", "views/delays?year=x", "views/delays/v1/whole", "nowhere", "verdicts/delays/1/none"],
)  # fmt: skip
def test_what_is_not_there_is_a_page_that_says_so(client: TestClient, path: str) -> None:
    answer = client.get(f"/anabranch/{path}")
    assert answer.status_code == 404
    assert "That didn't work" in answer.text


def test_the_verdict_of_a_run_is_where_links_of_its_tasks_lead(client: TestClient) -> None:
    answer = client.get("/anabranch/verdicts/delays/1/run-b")
    assert answer.status_code == 200
    assert "&lt;JFK&gt;" in answer.text
    assert "check key_unique on batch failed for 4" in answer.text


def test_a_red_day_leads_to_its_run_its_log_its_verdict_and_how_to_do_it_again(
    client: TestClient, settings: Settings
) -> None:
    """On the view's page, below the red square, and on the day's own page."""
    run = SimpleNamespace(dag_id="reprocess_delays", run_id="manual__2026-11-22T07:00:00+00:00", clear_number=0)
    key = record_run(settings, run)
    certify(settings, key, [DIFFERS], 3, differs=[DIFFERS], late=1)
    judge(settings, key, [], {DIFFERS: "the halves differ at flights@3"})
    address = "/dags/reprocess_delays/runs/manual__2026-11-22T07%3A00%3A00%2B00%3A00"
    for path in ("/anabranch/views/delays", f"/anabranch/views/delays/v1/{DIFFERS}"):
        page = known(client, path)
        assert f'href="{address}"' in page
        assert f'href="{address}/tasks/rebuild"' in page
        assert f'href="/anabranch/verdicts/delays/1/{key}"' in page
        assert "manual__2026-11-22T07:00:00+00:00" in text_of(page)
        assert f"anabranch reprocess delays --version 1 --from {DIFFERS}" in text_of(page)
    verdict = client.get(f"/anabranch/verdicts/delays/1/{key}").text
    assert f'href="{address}"' in verdict


def test_one_of_something_is_no_plural() -> None:
    day = Day(EQUAL, dirty=NewEvents(1, 1, "flights@2"), mark=CertificateSummary(True, datetime.now(UTC), "r", 1))
    assert "1 event since, 1 of them late; 1 late event in its certificate" in day.says
