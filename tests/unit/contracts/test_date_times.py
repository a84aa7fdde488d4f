"""Times with an offset: the same to the sender's check, the reasons and an inferred contract."""

from __future__ import annotations

import json
from typing import Any

import pytest
from anabranch.contracts import Contract, PlainJson, Record, Topic
from anabranch.contracts.model.infer import infer
from anabranch.contracts.sending import RecordCheck
from anabranch.ingest.landing.decoding._contract_reasons import contract_problems
from support.text_formats import DATE_TIMES, NO_DATE_TIMES

pytestmark = pytest.mark.unit
SCHEMA = {"type": "object", "properties": {"at": {"type": "string", "format": "date-time"}}}
SEEN = Contract("parcel.seen", 1, SCHEMA)
CHECK = RecordCheck(Topic("parcels", (SEEN,), records=PlainJson(id=Record.OFFSET, time=Record.APPEND_TIME)))


@pytest.mark.parametrize("text", [*DATE_TIMES, *NO_DATE_TIMES])
def test_each_says_the_same(text: Any) -> None:
    data = {"at": text}
    expected = text in DATE_TIMES
    assert (CHECK.problem(json.dumps(data).encode(), data) is None) is expected
    assert (list(contract_problems(SEEN, data)) == []) is expected
    if isinstance(text, str):
        found = infer("parcel.seen", [json.dumps(data)])
        assert (found.fields["at"].get("format") == "date-time") is expected


@pytest.mark.parametrize("text", ["0000-12-31T23:59:59Z", "0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59-05:00"])
def test_a_year_that_no_column_can_hold_is_named(text: str) -> None:
    problem = CHECK.problem(b"{}", {"at": text})
    assert problem == ("at", f"{text!r} is outside of the years 1 to 9999 (in UTC)")
