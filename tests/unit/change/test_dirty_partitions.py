"""Which published days are dirty: by what landed since their cut, over a real Delta table, without a JVM."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import anabranch
import pytest
from anabranch.change.dirty_partitions import DirtyPartition, dirty_partitions
from anabranch.compute.batch.manifest import days_text, parse_days
from anabranch.core.settings import Settings
from anabranch.ingest.landing.table.schema import epoch_build, epochs_of_file
from anabranch.lake.cut import Cut
from anabranch.lake.layout import landing_table
from anabranch.views import View
from anabranch.views.model.handle import ViewHandle
from support import small_halves
from support.landed_rows import FIRST, SECOND, THIRD, TOPIC, a_view, at, land, landed, publish

pytestmark = pytest.mark.unit


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Epoch 2 has a late event of the first day, epoch 3 one of the second; both have rows that are no input."""
    settings = Settings(home=tmp_path)
    land(
        settings,
        [landed(FIRST, 1), landed(SECOND, 1), landed(THIRD, 1)],
        [landed(FIRST, 2, late=True), landed(THIRD, 2, type="flight.arrived", late=True)],
        [landed(SECOND, 3, late=True), landed(SECOND, 3), landed(FIRST, 3, decision="quarantined", late=None)],
    )
    return settings


def found(settings: Settings, view: View, cut: Cut | None = None) -> list[DirtyPartition]:
    return dirty_partitions(ViewHandle(settings, view, TOPIC), cut)


def test_nothing_published_nothing_dirty(settings: Settings) -> None:
    assert found(settings, a_view()) == []


def test_days_are_dirty_by_what_landed_after_their_own_cut(settings: Settings) -> None:
    publish(settings, a_view(), {FIRST: 1, SECOND: 2, THIRD: 1})
    assert found(settings, a_view()) == [DirtyPartition(FIRST, at(1), 1, 1), DirtyPartition(SECOND, at(2), 2, 1)]
    assert found(settings, a_view(), at(2)) == [DirtyPartition(FIRST, at(1), 1, 1)]


def test_what_is_published_at_the_newest_cut_is_clean_and_days_nobody_published_are_no_concern(
    settings: Settings,
) -> None:
    publish(settings, a_view(), {FIRST: 2, THIRD: 1})
    assert found(settings, a_view()) == []


def test_events_of_the_days_around_count_as_far_as_the_view_reaches(settings: Settings) -> None:
    view = a_view(lookback=timedelta(hours=30))
    publish(settings, view, {SECOND: 1, THIRD: 2, date(2013, 1, 4): 1, date(2013, 1, 5): 1})
    days = [(day.partition, day.events) for day in found(settings, view)]
    assert days == [(SECOND, 3), (THIRD, 2), (date(2013, 1, 4), 2)]


def test_a_row_of_a_table_touches_all_later_days(settings: Settings) -> None:
    view = a_view(events=("flight.arrived", "flight.departed"), tables=("flight.departed",), refresh="partitions")
    publish(settings, view, {FIRST: 3, SECOND: 2, THIRD: 2})
    assert [(day.partition, day.events) for day in found(settings, view)] == [(SECOND, 2), (THIRD, 2)]


def test_files_that_can_hold_nothing_new_are_not_opened(settings: Settings) -> None:
    publish(settings, a_view(), {FIRST: 3, SECOND: 2, THIRD: 2})
    news = set(Path(landing_table(settings, "flights")).glob(f"builds/epoch-3-*/event_date={SECOND}/*.parquet"))
    for file in set(Path(landing_table(settings, "flights")).rglob("part-*.parquet")) - news:
        file.unlink()
    assert found(settings, a_view()) == [DirtyPartition(SECOND, at(2), 2, 1)]


def test_a_day_published_at_an_old_cut_does_not_open_the_files_of_others(settings: Settings) -> None:
    publish(settings, a_view(), {FIRST: 2, THIRD: 3})
    for file in Path(landing_table(settings, "flights")).rglob(f"event_date={THIRD}/*.parquet"):
        file.unlink()
    assert found(settings, a_view()) == []


def test_a_file_of_another_name_is_opened(settings: Settings) -> None:
    """One that a stranger wrote, say: it may hold any epoch."""
    assert epochs_of_file(f"builds/{epoch_build(12)}/event_date=2013-01-01/part-00000.parquet") == (12, 12)
    assert epochs_of_file("event_date=2013-01-01/part-00000-epoch-3-x.parquet") is None


def test_days_as_text_and_back() -> None:
    some = [FIRST, SECOND, date(2013, 1, 5), date(2013, 1, 31), date(2013, 2, 1)]
    assert days_text(some) == "2013-01-01..2013-01-02,2013-01-05,2013-01-31..2013-02-01"
    assert parse_days(days_text(some)) == some
    for wrong in ("", "2013-01-01..", "2013-1-1", "x", "2013-01-01;2013-01-02"):
        with pytest.raises(ValueError, match=r"nvalid|day|month"):
            parse_days(wrong)


def test_a_day_that_readers_get_from_the_speed_half_without_a_newer_event_is_dirty(settings: Settings) -> None:
    """A stream that catches up gives all rows of a micro-batch the epoch that it ends at."""
    publish(settings, a_view(), {FIRST: 2, SECOND: 3})
    small_halves.start_speed(settings, 3, [FIRST, SECOND])
    halves = anabranch.read("delays", settings=settings).halves
    assert halves == {FIRST: "speed", SECOND: "batch"}
    assert found(settings, a_view()) == [DirtyPartition(FIRST, at(2), 0, 0)]
    assert found(settings, a_view(), at(2)) == [], "at that cut a repair couldn't mend it"


def test_a_day_that_is_published_at_the_cut_of_its_speed_half_is_clean(settings: Settings) -> None:
    publish(settings, a_view(), {FIRST: 3, SECOND: 3})
    small_halves.start_speed(settings, 3, [FIRST, SECOND])
    assert found(settings, a_view()) == []
    assert set(anabranch.read("delays", settings=settings).halves.values()) == {"batch"}
