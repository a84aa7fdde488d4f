"""``anabranch produce events``: a line is sent with its own characters, or named before anything is sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from anabranch.contracts import Contract, PlainJson, Record, Topic
from anabranch.contracts.model.declarations import Declarations
from anabranch.core.errors import BadInput
from anabranch.ingest.kafka.event_files import FileEvent, read_events

pytestmark = pytest.mark.unit
MONEY = {"type": "number", "format": "decimal", "precision": 20, "scale": 2}
PAID = Contract("bill.paid", 1, {"type": "object", "properties": {"amount": MONEY}})
SEEN = Contract("bill.seen", 1, {"type": "object", "properties": {"n": {"type": "integer"}}})
DECLARED = Declarations(
    {
        "bills": Topic("bills", (PAID,), max_message_bytes=2_000),
        "seen": Topic("seen", (SEEN,), records=PlainJson(id=Record.KEY, time=Record.APPEND_TIME)),
    }
)
SOUND = {"id": "b-1", "source": "/till", "type": "bill.paid", "time": "2025-01-05T10:00:00Z"}


def read(tmp_path: Path, *lines: str) -> list[FileEvent]:
    file = tmp_path / "events.jsonl"
    file.write_text("\n".join(lines))
    return read_events(file, DECLARED)


def line(data: str = '{"amount":1}', **more: Any) -> str:
    envelope = json.dumps({**SOUND, **more})
    return f'{envelope[:-1]}, "data": {data}}}'


def test_an_event_keeps_its_characters_and_its_attributes(tmp_path: Path) -> None:
    given = line(
        '{"amount": 1234567890123456.78, "zz": 1.10}', traceparent="00-ab", time="2025-01-05T10:00:00.123456789Z"
    )
    (found,) = read(tmp_path, f" {given}\r")
    front = f'{{"specversion":"1.0","subject":"b-1","dataschema":"{PAID.uri}",'
    assert found == FileEvent("bills", b"b-1", (front + given[1:]).encode())
    whole = line(specversion="1.0", subject="s", dataschema=PAID.uri)
    assert read(tmp_path, whole) == [FileEvent("bills", b"s", whole.encode())]


@pytest.mark.parametrize("name", ["id", "source", "type"])
@pytest.mark.parametrize("value", [None, "", 5, {"a": 1}])
def test_an_envelope_has_texts(tmp_path: Path, name: str, value: Any) -> None:
    with pytest.raises(BadInput, match=f"jsonl:2: {name} is .* a text is needed") as caught:
        read(tmp_path, line(), line(**{name: value}))
    assert (caught.value.code, caught.value.state) == ("EVENT_FILE", "nothing was sent")


@pytest.mark.parametrize(
    ("wrong", "code", "said"),
    [
        (line(subject=None), "EVENT_REFUSED", "subject: null"),
        (line(dataschema=None), "EVENT_REFUSED", "dataschema: None is none of"),
        (line('{"amount": 1.001}'), "EVENT_REFUSED", "data.amount: is no decimal"),
        (line(time="2025-01-05 10:00:00+00:00"), "EVENT_REFUSED", "time: "),
        (line(time="2025-01-05T10:00:00"), "EVENT_FILE", "a time with a zone is needed"),
        (line(id="\ud800"), "EVENT_FILE", "a text is needed"),
        (line('{"a":' * 100_000 + "1" + "}" * 100_000), "EVENT_FILE", "nested too deeply"),
        (line("NaN"), "EVENT_FILE", "NaN is no JSON number"),
        (line('{"zz":"%s"}' % ("x" * 2_000)), "EVENT_FILE", "bytes are more than the 1488 of topic bills"),
        (line(type="bill.seen"), "EVENT_FILE", "records of seen have no envelope"),
    ],
)
def test_a_line_that_is_no_event_is_named_before_anything_is_sent(
    tmp_path: Path, wrong: str, code: str, said: str
) -> None:
    with pytest.raises(BadInput) as caught:
        read(tmp_path, line(), "", wrong)
    assert (caught.value.code, caught.value.state) == (code, "nothing was sent")
    assert "events.jsonl:3" in caught.value.what
    assert said in caught.value.what
