"""What a certification of a live table compares, and how much it reads; what can't be compared is refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest
from anabranch.change.certify_plan import make_certify_plan
from anabranch.core.errors import BadInput, Conflict, TryAgain
from anabranch.core.settings import Settings
from anabranch.serve.retirement import retire
from anabranch.serve.routes import set_route
from anabranch.views.model.handle import ViewHandle
from support.landed_sample import FLIGHTS, sample_views
from support.small_platform import DAYS, NAME, V1, V2, Clinic, departed

pytestmark = pytest.mark.unit


@pytest.fixture
def clinic(tmp_path: Path) -> Clinic:
    """Events of three days, and rows of the first two."""
    made = Clinic(Settings(home=tmp_path / "home"), (V1, V2))
    made.land([departed(n, day) for n, day in enumerate([*DAYS[:3], DAYS[0]])])
    for view in (V1, V2):
        made.speed(DAYS[:2], view)
    return made


def test_a_view_with_days_is_compared_on_those_with_rows_or_events(clinic: Clinic) -> None:
    every = make_certify_plan(clinic.handle())
    assert (every.days, every.events, every.first, every.last) == (tuple(DAYS[:3]), 4, DAYS[0], DAYS[2])
    assert (every.cut, every.what) == (clinic.cut, "2013-01-01 to 2013-01-03")
    assert "all since the first epoch" not in every.to_text()
    some = make_certify_plan(clinic.handle(), [DAYS[0], date(2031, 1, 1)])
    assert (some.days, some.events) == ((DAYS[0],), 2)
    assert some.to_json()["days"] == "2013-01-01"


def test_days_without_rows_and_events_are_refused(clinic: Clinic) -> None:
    with pytest.raises(BadInput) as refused:
        make_certify_plan(clinic.handle(), [date(2031, 1, 1)])
    assert (refused.value.code, refused.value.fields["field"]) == ("NOTHING_LANDED", "days")
    assert refused.value.next_step == "choose from 2013-01-01 to 2013-01-03"


def test_a_kappa_view_has_no_days_and_waits_for_its_stream(clinic: Clinic) -> None:
    aircraft = sample_views().get("aircraft_now")
    with pytest.raises(BadInput) as refused:
        make_certify_plan(clinic.handle(aircraft), DAYS[:1])
    assert (refused.value.code, refused.value.fields["field"]) == ("VIEW_WHOLE", "days")
    with pytest.raises(TryAgain) as early:
        make_certify_plan(clinic.handle(aircraft))
    assert early.value.code == "VIEW_NOT_READY"


def test_another_definition_and_a_retired_version_are_refused(clinic: Clinic) -> None:
    with pytest.raises(Conflict) as changed:
        make_certify_plan(ViewHandle(clinic.settings, replace(V1, fingerprint="0" * 16), FLIGHTS))
    assert changed.value.code == "DEFINITION_CHANGED"
    set_route(clinic.settings, NAME, {2: 100}, by="anna", why="test")
    retire(clinic.handle(), by="anna", why="test", grace=timedelta(0))
    with pytest.raises(BadInput) as retired:
        make_certify_plan(clinic.handle())
    assert retired.value.code == "VERSION_RETIRED"
