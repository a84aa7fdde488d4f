"""Whatever a record holds, why it is in quarantine is a text that can be stored: else it stops landing for ever."""

from __future__ import annotations

import pytest
from anabranch.contracts import Topic
from anabranch.ingest.landing.decoding._quarantine_reasons import reason
from hypothesis import given, settings
from hypothesis import strategies as st
from support.damaged_bytes import ACCIDENTS, fuzzed
from support.parcels_topic import NOON, PARCEL, parcel

pytestmark = [pytest.mark.unit, pytest.mark.property]

TOPIC = Topic("parcels", (PARCEL,))
HALF = "\\ud800"
"""Half of a pair of code units: JSON can escape it, and no text can hold it."""


@pytest.mark.parametrize("field", ["type", "dataschema", "id", "time", "specversion"])
def test_half_of_a_pair_in_any_field(field: str) -> None:
    value = parcel(1, **{field: "XXX"}).replace(b"XXX", HALF.encode())
    told = reason(TOPIC, value, NOON)
    assert told
    assert told.encode()


@settings(max_examples=500, deadline=None, derandomize=True)
@given(st.lists(ACCIDENTS, min_size=1, max_size=4))
def test_whatever_has_happened_to_a_record(steps: list[tuple[str, int, int]]) -> None:
    value = fuzzed(parcel("1", data={"n": 1, "text": HALF, "more": [HALF, {"x": None}]}), steps)
    told = reason(TOPIC, value, NOON)
    assert 0 < len(told.encode()) < 1_000
