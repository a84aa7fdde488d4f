"""Formats and zones of a time are refused where Java doesn't read them as Python does."""

from __future__ import annotations

from typing import Any

import pytest
from anabranch.contracts import Contract, PlainJson, Record, TimeField, Topic
from anabranch.core.errors import BadDefinition

pytestmark = pytest.mark.unit
MADE = Contract("order.placed", 1, {"type": "object", "properties": {"on": {"type": "string"}}})


def declared(time: TimeField) -> Topic:
    return Topic("orders", (MADE,), records=PlainJson(id=Record.OFFSET, time=time))


def refusal(time: TimeField) -> str:
    with pytest.raises(BadDefinition) as error:
        declared(time)
    assert (error.value.code, error.value.fields["part"]) == ("MAPPING", "time")
    return error.value.what


@pytest.mark.parametrize(
    "pattern",
    [
        "[yyyy-MM-dd HH:mm:ss]",
        "yyyy-MM-dd[ HH:mm]",
        "{yyyy-MM-dd}",
        "yyyy}",
        "#yyyy",
        "yyyy''MM",
        "yyyy'a''b'MM",
        "''yyyy",
        "yyyy'T",
        "ddddMMyyyy",
        "yyyyyyyy",
        "HHHH:mm",
        "yyyy-MM-dd XXXXXX",
        "ss.SSSSSSSSSSSS",
    ],
)
def test_a_format_that_java_reads_in_another_way_is_refused(pattern: str) -> None:
    said = refusal(TimeField("on", format=pattern))
    assert said.startswith(f"topic orders: time: format {pattern!r}: parts are yyyy, MM, dd, ")
    assert said.endswith("and texts in single quotes, which aren't empty; []{}# must be in one")


@pytest.mark.parametrize(
    "pattern",
    [
        "yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
        "yyyyMMddHHmmss",
        "dd.MM.yyyy '['HH:mm']'",
        "'{#}'yyyy|MM/dd (HH:mm)",
        "yyyy'dd'MM'dd'dd",
        "yyyy-MM-dd HH:mm:ss.SSSSSSSSS",
        'yyyy%MM~dd\\"',
    ],
)
def test_a_format_that_both_read_is_taken(pattern: str) -> None:
    assert declared(TimeField("on", format=pattern))


@pytest.mark.parametrize("pattern", ["HH:mm", "MM-dd HH:mm:ss", "'yyyy' MM-dd"])
def test_a_format_without_a_year_is_refused(pattern: str) -> None:
    said = refusal(TimeField("on", format=pattern))
    assert said == f"topic orders: time: format {pattern!r} has no year (yyyy): each event would be of 1970"


@pytest.mark.parametrize(
    "zone",
    [
        "localtime",
        "posixrules",
        "Factory",
        "ROC",
        "right/UTC",
        "posix/Europe/Berlin",
        "Europe",
        "",
        "../UTC",
        "europe/berlin",
        "+02:00",
        "a\0b",
        None,
        5,
        ["UTC"],
    ],
)
def test_what_java_knows_no_time_zone_by_is_refused(zone: Any) -> None:
    assert refusal(TimeField("on", format="yyyy", zone=zone)) == f"topic orders: time: {zone!r} is no time zone"


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "EST", "EST5EDT", "Etc/GMT+5", "GMT0"])
def test_a_zone_that_both_know_is_taken(zone: str) -> None:
    assert declared(TimeField("on", format="yyyy", zone=zone))
