"""What the producer's check accepts, landing accepts; what it refuses for its data, landing puts into quarantine.

Known differences, all of them in the envelope or beyond what JSON means, none of them makes a wrong value:
landing takes an event without ``dataschema`` for its type's newest version, any specversion 1.x, an unknown field that
is no valid Unicode, and a number that is too large for a double (as infinite).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from anabranch.contracts.sending import EventValidator
from anabranch.core.errors import BadInput
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.things_topic import BASE, MADE, TOPIC, decided

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.property]

TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
TIMES = st.sampled_from(["2013-01-01T10:00:00Z", "2013-01-01T10:00:00.5+01:00", "2013", "2013-01-01", "now", "1", ""])
VALUES = st.one_of(
    st.sampled_from(["JFK", "S", "L", "5", "true", "NaN", "[1]", "{}", "null", "JFK\n"]),
    TIMES, st.none(), st.booleans(), st.integers(-(2**65), 2**65), st.integers(0, 9), TEXT,
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.lists(st.sampled_from(["a", "5", 1, 2.5, None, "2013-01-01T10:00:00Z", {"n": 1}, {"n": "x"}]), max_size=3),
    st.dictionaries(st.sampled_from(["city", "since"]), st.sampled_from(["Rome", 5, "2013-01-01", None]), max_size=2),
)  # fmt: skip
FIELDS = st.sampled_from([*MADE.fields, "zz"])
CHANGES = st.dictionaries(FIELDS, VALUES, max_size=2)
SUBJECTS = st.one_of(st.just("thing"), TEXT.filter(bool))
RECORDS = st.lists(st.tuples(CHANGES, SUBJECTS), min_size=150, max_size=150)
VALIDATOR = EventValidator(TOPIC.contracts)


def record(changes: dict[str, Any], subject: str) -> bytes:
    body = {**BASE, "subject": subject, "data": {**BASE["data"], **changes}}
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()


def accepted(value: bytes) -> bool:
    try:
        VALIDATOR.check_bytes(value)
    except BadInput:
        return False
    return True


@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(RECORDS)
def test_landing_decides_as_the_producer_does(spark: SparkSession, drawn: list[tuple[dict[str, Any], str]]) -> None:
    values = {str(n): record(changes, subject) for n, (changes, subject) in enumerate(drawn)}
    found = decided(spark, values)
    differ = {
        values[name]: row["reason"]
        for name, row in found.items()
        if (row["decision"] == "valid") != accepted(values[name])
    }
    assert differ == {}
