"""StatsD's lines, as its clients write them."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from anabranch.contracts.model.metrics import METRIC
from anabranch.contracts.sending import EventValidator
from anabranch.ingest.statsd._lines import Malformed, Sample, read
from hypothesis import given
from hypothesis import strategies as st

pytestmark = pytest.mark.unit
BASE = {"name": "a", "kind": "counter", "value": "1", "relative": False, "sample_rate": "1", "tags": []}


def one(packet: bytes) -> Any:
    (found,) = read(packet)
    return found.data if isinstance(found, Sample) else str(found)


@pytest.mark.parametrize(
    ("line", "more"),
    [
        (b"a:1|c", {}),
        (b"a:-1.5|c|@0.1", {"value": "-1.5", "sample_rate": "0.1"}),
        (b"a:+3|g", {"kind": "gauge", "value": "3", "relative": True}),
        (b"a:-3|g", {"kind": "gauge", "value": "-3", "relative": True}),
        (b"a:320.000000|ms", {"kind": "timer", "value": "320"}),
        (b"a:1|c|#env:prod,urgent", {"tags": ["env:prod", "urgent"]}),
        (b"a:1|c|#env:prod|@.5|c:ci-17", {"tags": ["env:prod"], "sample_rate": "0.5"}),
        (b"a:1e3|c", {"value": "1000"}),
        (b"a:0.30000000000000004|h", {"kind": "histogram", "value": "0.3"}),
        (b"a:1e-300|d\n", {"kind": "distribution", "value": "0"}),
        ("größe.é:1|c".encode(), {"name": "größe.é"}),
    ],
)
def test_a_line_is_a_sample(line: bytes, more: dict[str, Any]) -> None:
    assert one(line) == BASE | more


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b":1|c", "no name"), (b"a", "no value"), (b"a:1", "no type"), (b"a:1|s", "none of c, g, ms, h, d"),
        (b"a:x|c", "no number"), (b"a:|c", "no number"), (b"a:nan|c", "no number"), (b"a:1_0|c", "no number"),
        (b"a:1e30|c", "19 digits"), (b"a:1e999|c", "19 digits"), (b"a:1|c|@0", "sample rate"),
        (b"a:1|c|@2", "sample rate"), (b"a:1|c|@x", "sample rate"), (b"a:1|c|!", "none of @rate"),
        (b"\xff:1|c", "not UTF-8"), (b"a" * 501 + b":1|c", "500 characters"), (b"a:1|c|Tx", "no Unix time"),
    ],
)  # fmt: skip
def test_what_is_none_says_why_and_nothing_of_the_line(line: bytes, problem: str) -> None:
    assert problem in one(line)


def test_a_packet_has_several_and_one_bad_line_spoils_no_other() -> None:
    found = list(read(b"a:1|c\nbad\n\nb:1:2:3|d|T1656581400\n"))
    assert [type(each) for each in found] == [Sample, Malformed, Sample, Sample, Sample]
    assert [each.data["value"] for each in found[2:] if isinstance(each, Sample)] == ["1", "2", "3"]
    assert {each.seconds for each in found[2:] if isinstance(each, Sample)} == {1656581400}


@given(st.binary(max_size=60) | st.text("ab:|@#Tcgms.,-+e0123456789\n", max_size=40).map(str.encode))
def test_whatever_comes_each_sample_keeps_its_contract(packet: bytes) -> None:
    validator = EventValidator((METRIC,))
    for found in read(packet):
        if isinstance(found, Sample):
            event = {
                "specversion": "1.0", "id": "1", "source": "/statsd", "type": METRIC.name,
                "subject": found.data["name"], "time": "2026-11-01T10:00:00Z", "data": found.data,
                "dataschema": METRIC.uri,
            }  # fmt: skip
            validator.check_bytes(json.dumps(event).encode())
            assert 0 < Decimal(found.data["sample_rate"]) <= 1
