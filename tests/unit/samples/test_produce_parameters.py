"""The parameters of `anabranch produce flights`, hostile ones too, and the pace that they make."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

import polars as pl
import pytest
from anabranch.core.errors import BadInput
from anabranch_samples.faults import SMALL, Faults
from anabranch_samples.producing import choose_faults, parse_day, parse_days, parse_pace
from anabranch_samples.publishing import Pace

pytestmark = pytest.mark.unit

BEGIN = datetime(2013, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("parse", "parameter"),
    [
        *[
            (lambda text=text: parse_day(text), "--from")
            for text in ("2013-02-30", "", "20130101", "2013-1-1", "2013-01-01; ls", "\u0662\u0660\u0661\u0663-01-01")
        ],
        *[(lambda days=days: parse_days(date(2013, 1, 1), days), "--days") for days in (0, -1, 10**9)],
        (lambda: parse_days(date(9999, 12, 30), 2), "--days"),
        *[(lambda rate=rate: parse_pace(rate, None), "--rate") for rate in (0.0, -1.0, float("nan"), float("inf"))],
        *[
            (lambda speed=speed: parse_pace(None, speed), "--speed")
            for speed in ("0x", "0.0", "-1x", "x", "", "infx", "1e9x", "3600xx", "$(id)x")
        ],
        (lambda: parse_pace(1.0, "2x"), "--rate"),
    ],
)
def test_a_bad_parameter_is_named(parse: Callable[[], object], parameter: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse()
    assert (caught.value.code, caught.value.fields["parameter"]) == ("PARAMETER", parameter)


def test_good_parameters() -> None:
    assert parse_day("2013-01-31") == date(2013, 1, 31)
    assert parse_days(date(2013, 1, 1), 365) == 365
    assert parse_pace(None, "3600x") == Pace(speed=3600.0)
    assert parse_pace(1000, None) == Pace(rate=1000)
    assert parse_pace(None, None) == Pace()


def test_faults_are_none_or_small_and_a_given_share_wins() -> None:
    assert choose_faults(False, {"duplicates": None}) == Faults()
    assert choose_faults(True, {"duplicates": None}) == SMALL
    assert choose_faults(True, {"duplicates": 0.0}).duplicates == 0.0
    assert choose_faults(False, {"duplicates": 0.5}) == Faults(duplicates=0.5)


def test_the_pace_says_when_each_event_is_due() -> None:
    events = pl.DataFrame({"publish_time": [BEGIN, BEGIN + timedelta(hours=1), BEGIN + timedelta(hours=3)]})
    assert Pace().due(events, BEGIN, 0) is None
    by_speed, by_rate = Pace(speed=3600).due(events, BEGIN, 0), Pace(rate=10).due(events, BEGIN, 20)
    assert by_speed is not None
    assert by_rate is not None
    assert (by_speed.tolist(), by_rate.tolist()) == ([0.0, 1.0, 3.0], [2.0, 2.1, 2.2])
