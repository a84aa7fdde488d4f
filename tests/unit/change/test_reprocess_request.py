"""What people type into the form: read as dates and a cut, or refused by name."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from anabranch.change.reprocess_request import parse_reprocess_request
from anabranch.core.errors import BadInput

pytestmark = pytest.mark.unit
OWN = date(2013, 5, 6)


def test_without_parameters_it_is_the_run_s_own_day_at_the_newest_cut() -> None:
    wish = parse_reprocess_request({"from": None, "to": "", "cut": None}, ["flights"], OWN)
    assert (wish.partitions, wish.epochs, wish.explicit) == ((OWN,), {}, False)


def test_a_range_holds_both_ends() -> None:
    wish = parse_reprocess_request({"from": "2013-02-27", "to": "2013-03-01", "cut": "flights@12"}, ["flights"], OWN)
    assert [p.isoformat() for p in wish.partitions] == ["2013-02-27", "2013-02-28", "2013-03-01"]
    assert (wish.epochs, wish.explicit) == ({"flights": 12}, True)


def test_only_from_is_one_day() -> None:
    assert parse_reprocess_request({"from": "2013-02-27"}, ["flights"], OWN).partitions == (date(2013, 2, 27),)


def test_those_that_are_missing_are_found_by_the_plan() -> None:
    wish = parse_reprocess_request({"missing": True, "from": None, "to": "", "cut": "flights@12"}, ["flights"], OWN)
    assert (wish.partitions, wish.epochs, wish.explicit, wish.missing) == ((), {"flights": 12}, False, True)
    assert not parse_reprocess_request({"missing": False}, ["flights"], OWN).missing


HOSTILE = [
    "2013-01-01; rm -rf /",
    "$(touch /tmp/owned)",
    "`id`",
    "2013-01-01' OR '1'='1",
    "{{ macros.os.system('id') }}",
    "../../etc/passwd",
    "2013-01-01\n--conf",
    "--conf spark.driver.extraJavaOptions=x",
    "\uff12\uff10\uff11\uff13-01-01",
    "2013-1-1",
    "20130101",
    "2013-W01-1",
    "2013-02-30",
    "0000-01-01",
    "\x00",
    " ",
    "9" * 100_000,
]


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize("field", ["from", "to"])
def test_what_is_no_date_is_refused_by_field(field: str, value: str) -> None:
    params = {"from": "2013-01-01", "to": "2013-01-02"} | {field: value}
    with pytest.raises(BadInput) as refusal:
        parse_reprocess_request(params, ["flights"], OWN)
    assert (refusal.value.code, refusal.value.fields["field"]) == ("DATE_UNREADABLE", field)
    assert len(str(refusal.value)) < 400


@pytest.mark.parametrize(
    ("params", "code", "field"),
    [
        ({"from": "2013-01-02", "to": "2013-01-01"}, "RANGE_REVERSED", "to"),
        ({"to": "2013-01-01"}, "RANGE_OPEN", "from"),
        ({"from": "1013-01-01", "to": "2013-01-01"}, "RANGE_TOO_LONG", "to"),
        ({"from": 20130101}, "PARAMETER_TYPE", "from"),
        ({"from": ["2013-01-01"]}, "PARAMETER_TYPE", "from"),
        ({"missing": True, "from": "2013-01-01"}, "RANGE_TWICE", "missing"),
        ({"missing": "true"}, "PARAMETER_TYPE", "missing"),
        ({"missing": 1}, "PARAMETER_TYPE", "missing"),
        ({"cut": 12}, "PARAMETER_TYPE", "cut"),
        ({"cut": True}, "PARAMETER_TYPE", "cut"),
        ({"cut": "12"}, "CUT_UNREADABLE", "cut"),
        ({"cut": "flights@"}, "CUT_UNREADABLE", "cut"),
        ({"cut": "flights@-1"}, "CUT_UNREADABLE", "cut"),
        ({"cut": "flights@0"}, "CUT_UNREADABLE", "cut"),
        ({"cut": "flights@1,weather@2"}, "CUT_OF_ANOTHER_TOPIC", "cut"),
        ({"cut": "flights@1,flights@2"}, "CUT_UNREADABLE", "cut"),
        ({"cut": "flights@1 --conf a=b"}, "CUT_UNREADABLE", "cut"),
        ({"cut": "flights@\u0661\u0662"}, "CUT_UNREADABLE", "cut"),
        ({"cut": "flights@" + "9" * 5000}, "CUT_UNREADABLE", "cut"),
        ({"cut": "weather@3"}, "CUT_OF_ANOTHER_TOPIC", "cut"),
    ],
)
def test_a_wrong_parameter_is_refused_by_field(params: dict[str, Any], code: str, field: str) -> None:
    with pytest.raises(BadInput) as refusal:
        parse_reprocess_request(params, ["flights"], OWN)
    assert (refusal.value.code, refusal.value.fields["field"]) == (code, field)
    assert field in str(refusal.value)
    assert refusal.value.next_step
