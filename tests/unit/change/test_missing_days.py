"""Which late events are in no half of a view, and which days lack them: over real Delta tables, without a JVM."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from anabranch.change.reprocess_plan import make_plan
from anabranch.change.reprocess_request import parse_reprocess_request
from anabranch.compute.batch import missing_days as module
from anabranch.compute.batch.missing_days import Missing, MissingDay, missing, missing_now
from anabranch.core.settings import Settings
from anabranch.ingest.landing.table.late_events import Lateness, lateness_since
from anabranch.lake.layout import landing_table
from anabranch.views.model.handle import ViewHandle
from support.landed_rows import FIRST, SECOND, THIRD, TOPIC, a_view, at, land, landed, publish

pytestmark = pytest.mark.unit
FOURTH = date(2013, 1, 4)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """The third day is on time; two late events of the first day come in epoch 2, one of the second in epoch 3. Each
    epoch has rows that are no input of the view, too."""
    settings = Settings(home=tmp_path)
    land(
        settings,
        [landed(THIRD, 1), landed(THIRD, 1), landed(FIRST, 1, decision="quarantined", late=None)],
        [landed(FIRST, 2, late=True), landed(FIRST, 2, late=True), landed(THIRD, 2, type="flight.arrived", late=True)],
        [landed(SECOND, 3, late=True), landed(SECOND, 3, decision="duplicate", late=None), landed(THIRD, 3)],
    )
    return settings


def never(day: date, late: int) -> MissingDay:
    return MissingDay(day, None, late)


def test_late_events_of_days_that_were_never_published_are_in_no_half(settings: Settings) -> None:
    found = missing(settings, a_view(), at(3))
    assert found == Missing(3, (never(FIRST, 2), never(SECOND, 1), never(THIRD, 0)))
    assert (found.never_published, str(found)) == ({FIRST: 2, SECOND: 1}, "3 late events are in no half")


def test_loaded_events_are_in_no_half_either(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "own")
    loaded = {"decision": "loaded", "late": None}
    land(settings, [landed(FIRST, 1), landed(SECOND, 1)], [landed(FIRST, 2, **loaded), landed(THIRD, 2, **loaded)])
    publish(settings, a_view(), {FIRST: 1, SECOND: 1})
    found = missing(settings, a_view(), at(2))
    assert found == Missing(2, (MissingDay(FIRST, at(1), 1, 1), MissingDay(THIRD, None, 1, 1)), 2)
    assert str(found) == "2 events (0 late, 2 loaded) are in no half"
    assert str(Missing(3, (), 1)) == "3 events (2 late, 1 loaded) are in no half"


def test_an_older_cut_knows_less(settings: Settings) -> None:
    assert missing(settings, a_view(), at(2)) == Missing(2, (never(FIRST, 2), never(THIRD, 0)))
    assert missing(settings, a_view(), at(1)) == Missing(0, (never(THIRD, 0),))


def test_what_was_published_before_an_event_landed_lacks_it(settings: Settings) -> None:
    publish(settings, a_view(), {FIRST: 1, SECOND: 3, THIRD: 1})
    found = missing(settings, a_view(), at(3))
    assert found == Missing(2, (MissingDay(FIRST, at(1), 2),)), "on-time events that came since are in the speed half"
    assert found.never_published == {}


def test_nothing_is_missing_when_every_day_is_published_behind_its_events(settings: Settings) -> None:
    publish(settings, a_view(), {FIRST: 2, SECOND: 3, THIRD: 1})
    assert missing(settings, a_view(), at(3)) == Missing()


def test_a_kappa_view_has_no_late_events(settings: Settings) -> None:
    assert missing(settings, a_view(partition_by=None), at(3)) == Missing()


def test_an_event_counts_once_however_many_days_depend_on_it(settings: Settings) -> None:
    view = a_view(lookback=timedelta(hours=30))
    found = missing(settings, view, at(3))
    assert found == Missing(3, (never(FIRST, 2), never(SECOND, 3), never(THIRD, 3))), (
        "none before the first, none after"
    )
    publish(settings, view, {FIRST: 3, SECOND: 3})
    assert missing(settings, view, at(3)) == Missing(3, (never(THIRD, 3),)), "the third day still lacks all of them"


def test_a_day_between_that_only_its_neighbours_make_rows_of_is_one_too(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    land(settings, [landed(THIRD, 1)], [landed(FIRST, 2, late=True)])
    assert missing(settings, a_view(), at(2)).days == (never(FIRST, 1), never(THIRD, 0))
    days = missing(settings, a_view(lookback=timedelta(hours=20)), at(2)).days
    assert days == (never(FIRST, 1), never(SECOND, 1), never(THIRD, 0))


def test_all_later_days_lack_a_late_row_of_a_table(settings: Settings) -> None:
    view = a_view(events=("flight.arrived", "flight.departed"), tables=("flight.departed",), refresh="partitions")
    assert missing(settings, view, at(3)) == Missing(4, (never(THIRD, 4),)), "only arrivals make days"
    publish(settings, view, {SECOND: 3, THIRD: 2})
    assert missing(settings, view, at(3)) == Missing(1, (MissingDay(THIRD, at(2), 1),))


def test_files_of_days_that_lack_nothing_are_not_opened(settings: Settings) -> None:
    publish(settings, a_view(), {FIRST: 2, THIRD: 3})
    for file in Path(landing_table(settings, "flights")).rglob("*.parquet"):
        if f"event_date={SECOND}" not in str(file):
            file.unlink()
    assert missing(settings, a_view(), at(3)) == Missing(1, (never(SECOND, 1),))


def test_the_answer_is_kept_until_something_lands_or_is_published(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = list[int]()

    def counted(*given: Any) -> Lateness:
        looked.append(1)
        return lateness_since(*given)

    monkeypatch.setattr(module, "lateness_since", counted)
    assert [missing(settings, a_view(), at(3)).late for _ in range(3)] == [3, 3, 3]
    assert len(looked) == 1
    publish(settings, a_view(), {FIRST: 3})
    assert (missing(settings, a_view(), at(3)).late, len(looked)) == (1, 2)


def test_a_plan_of_what_is_missing_names_each_day_and_says_why(settings: Settings) -> None:
    publish(settings, a_view(), {FIRST: 1})
    plan = make_plan(
        ViewHandle(settings, a_view(), TOPIC), parse_reprocess_request({"missing": True}, ["flights"], THIRD)
    )
    assert (plan.partitions, plan.published, plan.missing) == (
        (FIRST, SECOND, THIRD),
        1,
        missing(settings, a_view(), at(3)),
    )
    assert plan.to_text().splitlines()[1:5] == [
        "2 never published days, and 1 published day without all late events; 3 late events are in no half",
        "partition       events      late",
        "2013-01-01           2         2",
        "2013-01-02           1         1",
    ]
    older = make_plan(
        ViewHandle(settings, a_view(), TOPIC),
        parse_reprocess_request({"missing": True, "cut": "flights@1"}, ["flights"], THIRD),
    )
    assert (older.partitions, str(older.cut)) == ((THIRD,), "flights@1")


def test_nothing_to_publish_is_a_plan_of_no_day(settings: Settings) -> None:
    publish(settings, a_view(), {FIRST: 3, SECOND: 3, THIRD: 3})
    plan = make_plan(
        ViewHandle(settings, a_view(), TOPIC), parse_reprocess_request({"missing": True}, ["flights"], THIRD)
    )
    assert (plan.partitions, plan.empty, plan.span, plan.to_json()["days"]) == ((), True, "no day", "")


def test_before_anything_has_landed_nothing_is_missing(tmp_path: Path) -> None:
    assert missing(Settings(home=tmp_path), a_view(), at(0)) == Missing()
    assert missing_now(ViewHandle(Settings(home=tmp_path), a_view(), TOPIC)) == Missing()
