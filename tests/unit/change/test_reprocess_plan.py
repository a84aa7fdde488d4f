"""A plan counts what a rebuild would read: over a real Delta table of landed rows, without a JVM."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from anabranch.change.reprocess_plan import check_still_holds, make_plan
from anabranch.change.reprocess_request import ReprocessRequest, parse_reprocess_request
from anabranch.core.errors import AnabranchError, BadDefinition, BadInput, Conflict, TryAgain
from anabranch.core.settings import Settings
from anabranch.lake import CommitMetadata
from anabranch.lake.commits import create
from anabranch.lake.cut import Cut, Position
from anabranch.lake.layout import VersionRef
from anabranch.views import View
from anabranch.views.model.handle import ViewHandle
from support.landed_rows import TOPIC, a_view, land, landed

pytestmark = pytest.mark.unit
DAY = date(2013, 1, 2)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Three epochs: two days, a late event, and rows that are no input of the view."""
    settings = Settings(home=tmp_path)
    before, after = DAY - timedelta(days=1), DAY + timedelta(days=1)
    epochs = [
        [landed(before, 1), landed(DAY, 1), landed(DAY, 1, type="flight.arrived")],
        [landed(DAY, 2), landed(DAY, 2, decision="duplicate", late=None), landed(DAY, 2, decision="quarantined")],
        [landed(DAY, 3, late=True), landed(after, 3), landed(after, 3), landed(after, 3)],
    ]
    land(settings, *epochs)
    return settings


def wish(**params: str) -> ReprocessRequest:
    return parse_reprocess_request(params, ["flights"], DAY)


def test_a_plan_counts_valid_events_of_the_view_s_types_by_partition(settings: Settings) -> None:
    plan = make_plan(ViewHandle(settings, a_view(), TOPIC), wish(**{"from": "2013-01-01", "to": "2013-01-04"}))
    assert [plan.events[p] for p in plan.partitions] == [1, 3, 3, 0]
    assert [plan.late[p] for p in plan.partitions] == [0, 1, 0, 0]
    assert (plan.read, str(plan.cut), plan.cut.positions["flights"].offsets) == (7, "flights@3", {0: 30})


def test_an_older_cut_sees_less(settings: Settings) -> None:
    plan = make_plan(ViewHandle(settings, a_view(), TOPIC), wish(**{"from": "2013-01-02", "cut": "flights@1"}))
    assert (plan.events[DAY], plan.late[DAY], plan.cut.positions["flights"].offsets) == (1, 0, {0: 10})


def test_lookback_and_lookahead_are_counted_for_each_partition_and_read_once(settings: Settings) -> None:
    view = a_view(lookback=timedelta(hours=30), lookahead=timedelta(hours=1))
    plan = make_plan(ViewHandle(settings, view, TOPIC), wish(**{"from": "2013-01-02", "to": "2013-01-03"}))
    assert plan.events == {DAY: 7, DAY + timedelta(days=1): 7}
    assert plan.late == {DAY: 1, DAY + timedelta(days=1): 1}
    assert plan.read == 7


def test_several_event_types_are_counted_together(settings: Settings) -> None:
    view = a_view(events=("flight.departed", "flight.arrived"))
    assert make_plan(ViewHandle(settings, view, TOPIC), wish(**{"from": "2013-01-02"})).events[DAY] == 4


def test_a_run_of_its_own_day_may_find_nothing(settings: Settings) -> None:
    plan = make_plan(ViewHandle(settings, a_view(), TOPIC), parse_reprocess_request({}, ["flights"], date(2020, 1, 1)))
    assert plan.empty
    assert plan.events == {date(2020, 1, 1): 0}


def test_a_published_day_without_events_is_work_it_has_to_become_empty(settings: Settings) -> None:
    day = date(2020, 1, 1)
    view, cut = a_view(), Cut({"flights": Position(1, {})})
    shown = {"from": f"{day}", "to": f"{day}", "cut": cut.to_json(), "run": "r"}
    columns = pa.schema([("k", pa.string()), ("partition_date", pa.date32())])
    uri = VersionRef(settings, view.name, view.version).batch_table
    create(
        uri, columns, ["partition_date"], CommitMetadata("view/delays/v1/batch", "r", cut, extra={"published": [shown]})
    )
    for wish_of in (parse_reprocess_request({}, ["flights"], day), wish(**{"from": f"{day}"})):
        plan = make_plan(ViewHandle(settings, view, TOPIC), wish_of)
        assert (plan.read, plan.published, plan.untouched, plan.empty) == (0, 1, 0, False)
    other = make_plan(ViewHandle(settings, view, TOPIC), wish(**{"from": "2013-01-02"}))
    assert (other.published, other.untouched) == (0, 1)
    assert "replaces 0 published days; 1 other published day, the speed half" in other.to_text()
    assert "no estimate: 3 earlier runs of this version are needed, there is none" in other.to_text()


def test_a_plan_holds_for_the_definition_that_it_was_made_for(settings: Settings) -> None:
    planned = make_plan(ViewHandle(settings, a_view(fingerprint="as planned"), TOPIC), wish(**{"from": "2013-01-02"}))
    check_still_holds(a_view(fingerprint="as planned"), planned.fingerprint)
    with pytest.raises(Conflict) as refusal:
        check_still_holds(a_view(fingerprint="another"), planned.fingerprint)
    assert refusal.value.code == "PLAN_OUTDATED"


def test_a_day_without_events_between_those_that_landed_is_work_and_one_outside_is_not(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    land(settings, [landed(date(2013, 1, 1), 1), landed(date(2013, 1, 9), 1)])
    own_day = parse_reprocess_request({}, ["flights"], date(2013, 1, 5))
    for wish_of in (own_day, wish(**{"from": "2013-01-05", "to": "2013-01-06"})):
        plan = make_plan(ViewHandle(settings, a_view(), TOPIC), wish_of)
        assert (plan.read, plan.published, plan.empty) == (0, 0, False)
    assert make_plan(
        ViewHandle(settings, a_view(), TOPIC), parse_reprocess_request({}, ["flights"], date(2013, 1, 10))
    ).empty


@pytest.mark.parametrize(
    ("params", "code", "field"),
    [
        ({"from": "2013-01-02", "cut": "flights@4"}, "CUT_IN_FUTURE", "cut"),
        ({"from": "2031-01-02", "to": "2031-01-03"}, "NOTHING_LANDED", "from"),
    ],
)
def test_what_can_not_be_done_is_refused(settings: Settings, params: dict[str, str], code: str, field: str) -> None:
    with pytest.raises(BadInput) as refusal:
        make_plan(ViewHandle(settings, a_view(), TOPIC), wish(**params))
    assert (refusal.value.code, refusal.value.fields["field"]) == (code, field)


def test_nothing_landed_names_what_there_is(settings: Settings) -> None:
    with pytest.raises(BadInput, match="2031") as refusal:
        make_plan(ViewHandle(settings, a_view(), TOPIC), wish(**{"from": "2031-01-02"}))
    assert "2013-01-01 to 2013-01-03" in refusal.value.next_step


@pytest.mark.parametrize(
    ("view", "kind", "code"),
    [(a_view(), TryAgain, "LANDING_EMPTY"), (a_view(partition_by=None), BadDefinition, "VIEW_KAPPA")],
)
def test_no_landing_and_no_partitions(tmp_path: Path, view: View, kind: type[AnabranchError], code: str) -> None:
    with pytest.raises(kind) as refusal:
        make_plan(ViewHandle(Settings(home=tmp_path), view, TOPIC), wish())
    assert refusal.value.code == code


def test_a_plan_is_shown_and_handed_on(settings: Settings) -> None:
    plan = make_plan(ViewHandle(settings, a_view(), TOPIC), wish(**{"from": "2013-01-01", "to": "2013-01-02"}))
    assert plan.to_json() == {
        "view": "delays",
        "version": 1,
        "cut": "flights@3",
        "from": "2013-01-01",
        "to": "2013-01-02",
        "partitions": [
            {"partition": "2013-01-01", "events": 1, "late": 0},
            {"partition": "2013-01-02", "events": 3, "late": 1},
        ],
        "events": 4,
        "late": 1,
        "fingerprint": "",
        "days": "2013-01-01..2013-01-02",
        "span": "2013-01-01 to 2013-01-02 (2 days)",
        "published": 0,
        "shown": [],
        "readers": 0,
        "untouched": 0,
        "estimate": plan.estimate.to_json(),
        "lookback_hours": 0.0,
        "lookahead_hours": 0.0,
    }
    assert plan.to_text().startswith("delays v1: 2013-01-01 to 2013-01-02 (2 days) at flights@3, 4 events to read\n")
    assert "\nno estimate: 3 earlier runs of this version are needed, there is none\n" in plan.to_text()
