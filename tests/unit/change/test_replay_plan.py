"""What a replay would walk and replace: counted from landing, for whoever asks by days, by cuts, or for all."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from anabranch.apps.airflow._params import replay_parameters
from anabranch.apps.cli.main import app
from anabranch.change.replay.rate_limit import Pace
from anabranch.change.replay.state import PUBLISHED, ReplayState, write_state
from anabranch.change.replay_plan import ReplayPlan, make_replay_plan
from anabranch.change.replay_request import pace_of, parse_replay_parameters, parse_view
from anabranch.core.errors import BadInput
from anabranch.core.settings import Settings
from anabranch.views.model.handle import ViewHandle
from support.landed_rows import TOPIC, a_view, land, landed
from typer.testing import CliRunner

pytestmark = pytest.mark.unit
DAY = date(2013, 1, 2)
BEFORE, AFTER, LATER = DAY - timedelta(days=1), DAY + timedelta(days=1), DAY + timedelta(days=4)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    settings = Settings(home=tmp_path)
    land(
        settings,
        [landed(BEFORE, 1), landed(DAY, 1), landed(DAY, 1, type="flight.arrived")],
        [landed(DAY, 2), landed(DAY, 2, decision="quarantined")],
        [landed(BEFORE, 3, late=True), landed(AFTER, 3)],
        [landed(LATER, 4)],
    )
    return settings


def planned(settings: Settings, **asked: Any) -> ReplayPlan:
    view = a_view(**asked.pop("view", {}))
    return make_replay_plan(ViewHandle(settings, view, TOPIC), parse_replay_parameters(asked, ["flights"]))


def test_the_whole_view(settings: Settings) -> None:
    made = planned(settings, share=25, speed=100)
    assert (made.days, made.until, made.events) == (None, {}, 6)
    assert (made.pace, str(made.cut)) == (Pace(0.25, 100), "flights@4")
    text = made.to_text()
    assert "delays v1: the whole view, replayed from landing up to flights@4" in text
    assert "uses at most 25% of the cores, at most 100 times real time" in text
    assert "the live stream then continues with the replay's state" in text


def test_days(settings: Settings) -> None:
    made = planned(settings, **{"from": "2013-01-01", "to": "2013-01-02"})
    assert (made.days, made.until, made.events) == ((BEFORE, DAY), {"flights": 4}, 4)
    assert "2013-01-01 to 2013-01-02" in made.to_text()


@pytest.mark.parametrize(
    ("since", "until", "days"),
    [
        ("", "flights@1", (BEFORE, DAY)),
        ("flights@1", "flights@2", (DAY,)),
        ("flights@1", "flights@3", (DAY, AFTER)),  # what was late is no event of the stream
    ],
)
def test_two_cuts_are_the_days_that_they_touch(
    settings: Settings, since: str, until: str, days: tuple[date, ...]
) -> None:
    assert planned(settings, since=since, until=until).days == days


def test_a_row_of_a_table_with_history_touches_all_later_days(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    arrived = landed(DAY, 2, type="flight.arrived")
    land(settings, [landed(day, 1) for day in (BEFORE, DAY, AFTER)], [arrived], [landed(LATER, 3)])
    both = {"events": ("flight.departed", "flight.arrived"), "refresh": "partitions"}
    asked = {"since": "flights@1", "until": "flights@2"}
    assert planned(settings, **asked, view={**both, "tables": ("flight.arrived",)}).days == (DAY, AFTER)
    assert planned(settings, **asked, view=both).days == (DAY,)


@pytest.mark.parametrize(
    ("asked", "code", "field"),
    [
        ({"from": "2013-01-06"}, "DAY_OPEN", "to"),
        ({"from": "2013-01-01", "view": {"partition_by": None, "key": ("k",)}}, "VIEW_WHOLE", "from"),
        ({"since": "flights@4", "until": "flights@5"}, "CUT_IN_FUTURE", "cut"),
        ({"since": "flights@9"}, "CUT_IN_FUTURE", "cut"),
        ({"since": "flights@3", "until": "flights@2"}, "RANGE_REVERSED", "until"),
        ({"since": "flights@1", "from": "2013-01-01"}, "RANGE_TWICE", "since"),
        ({"from": "2013-01-02", "to": "2013-01-01"}, "RANGE_REVERSED", "to"),
        ({"to": "2013-01-01"}, "RANGE_OPEN", "from"),
        ({"from": "{{ 1 }}"}, "DATE_UNREADABLE", "from"),
        ({"until": "flights@1;ls"}, "CUT_UNREADABLE", "until"),
        ({"since": "weather@1"}, "CUT_OF_ANOTHER_TOPIC", "since"),
        ({"share": 0}, "PACE_WRONG", "share"),
        ({"source": "s3://other"}, "SOURCE_UNKNOWN", "source"),
        ({"share": "50"}, "PARAMETER_TYPE", "share"),
        ({"share": True}, "PARAMETER_TYPE", "share"),
        ({"speed": -1}, "PACE_WRONG", "speed"),
        ({"speed": "fast; rm"}, "PARAMETER_TYPE", "speed"),
    ],
)
def test_a_wrong_wish_is_refused_by_field(settings: Settings, asked: dict[str, Any], code: str, field: str) -> None:
    with pytest.raises(BadInput) as error:
        planned(settings, **asked)
    assert (error.value.code, error.value.fields["field"]) == (code, field)


@pytest.mark.parametrize(
    ("params", "field"),
    [({"view": "../etc"}, "view"), ({"view": "<b>"}, "view"), ({}, "view"), ({"view": "v", "version": "1"}, "version")],
)
def test_a_wrong_view_is_refused_by_field(params: dict[str, Any], field: str) -> None:
    with pytest.raises(BadInput) as error:
        parse_view(params)
    assert error.value.fields["field"] == field


def test_a_view_without_state_takes_a_day_that_is_open(settings: Settings) -> None:
    made = planned(settings, **{"from": "2013-01-06", "view": {"refresh": "partitions"}})
    assert made.days == (LATER,)


def replayed(settings: Settings, run: str, records: int, seconds: float, share: float = 0.1) -> None:
    done = ReplayState(
        "delays", 1, run, phase=PUBLISHED, done=records, total=records, seconds=seconds, share=share, started_ms=1
    )
    write_state(settings, done)


def test_earlier_replays_at_the_same_pace_say_how_long_it_takes(settings: Settings) -> None:
    for run, records, seconds in (("a", 1_000, 10.0), ("b", 2_000, 15.0), ("c", 3_000, 20.0)):
        replayed(settings, run, records, seconds)
    for run in ("d", "e", "f"):
        replayed(settings, run, 3_000, 2.0, share=1.0)
    made = planned(settings)
    assert made.estimate.runs == 3
    assert made.estimate.seconds == pytest.approx(5.0, abs=0.1)
    assert planned(settings, share=100).estimate.seconds == pytest.approx(2.0, abs=0.1)
    assert str(planned(settings, share=50).estimate) == (
        "no estimate: 3 earlier replays of this version at this pace are needed, there is none"
    )
    assert planned(settings, share=50).to_json()["estimate"]["seconds"] is None


def test_a_plan_from_the_shell(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANABRANCH_HOME", str(settings.home))
    run = CliRunner()
    shown = run.invoke(app, ["replay", "plan", "departure_delays", "--from", "2013-01-01", "--share", "10"])
    assert shown.exit_code == 0, shown.output
    assert "uses at most 10% of the cores" in shown.stdout
    refused = run.invoke(app, ["replay", "plan", "departure_delays", "--share", "0"])
    assert (refused.exit_code, "PACE_WRONG" in refused.stderr) == (1, True)
    assert "no replay" in run.invoke(app, ["replay", "status", "departure_delays"]).stdout
    for command in ("cancel", "pace"):
        assert "NO_REPLAY" in run.invoke(app, ["replay", command, "departure_delays"]).stderr


@pytest.mark.parametrize("option", ["from", "to", "since", "until"])
@pytest.mark.parametrize("command", ["plan", "start"])
def test_an_empty_variable_of_a_script_replays_nothing(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, command: str, option: str
) -> None:
    """Left out, it would be the whole view."""
    monkeypatch.setenv("ANABRANCH_HOME", str(settings.home))
    refused = CliRunner().invoke(app, ["replay", command, "departure_delays", f"--{option}", ""])
    assert (refused.exit_code, f"parameter {option}: is empty" in refused.stderr) == (1, True), refused.output


@pytest.mark.parametrize("share", [0, 0.5, 101, 500])
def test_a_share_that_is_no_percentage_is_refused_by_name_and_in_percent(share: float) -> None:
    with pytest.raises(BadInput) as refused:
        pace_of({"share": share}, Pace())
    assert (refused.value.code, refused.value.fields["field"]) == ("PACE_WRONG", "share")
    assert f"parameter share: {share:g} % of the cores is not valid: from 1 to 100 percent" in str(refused.value)
    form = replay_parameters({})["share"].schema
    assert "maximum" not in form, "Airflow's form would turn 500 into it without a word"
