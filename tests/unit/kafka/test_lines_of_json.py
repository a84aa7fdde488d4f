"""A line of JSON ends at a line feed: JSON may hold Unicode's other separators as they are."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from anabranch.contracts import Contract, Topic
from anabranch.contracts.model.declarations import Declarations
from anabranch.core.errors import BadInput, TryAgain
from anabranch.core.settings import Settings
from anabranch.ingest.kafka import lines
from anabranch.ingest.kafka.event_files import read_events
from anabranch.ingest.kafka.look import LogRecord
from confluent_kafka import KafkaError

pytestmark = pytest.mark.unit
NOTED = Contract("note.made", 1, {"type": "object", "properties": {"text": {"type": "string"}}})
DECLARED = Declarations({"notes": Topic("notes", (NOTED,))})
TEXT = "a\u2028b\u2029c\x85d"


def event(number: int, text: str = TEXT) -> str:
    content: dict[str, Any] = {"id": f"n{number}", "source": "s", "type": "note.made", "time": "2024-01-01T00:00:00Z"}
    return json.dumps({**content, "data": {"text": text}}, ensure_ascii=False)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("begin", ["", "\ufeff"])
def test_an_event_of_a_file_is_a_line(tmp_path: Path, begin: str, end: str) -> None:
    file = tmp_path / "events.jsonl"
    file.write_bytes((begin + end.join([event(1), "", event(3)])).encode())
    found = read_events(file, DECLARED)
    shown = [json.loads(each.value) for each in found]
    assert [(each["id"], each["data"]) for each in shown] == [("n1", {"text": TEXT}), ("n3", {"text": TEXT})]
    file.write_bytes((begin + end.join([event(1), "", event(3), "{"])).encode())
    with pytest.raises(BadInput, match=rf"{file}:4 is not JSON"):
        read_events(file, DECLARED)


@pytest.mark.parametrize("value", ['{"text": "%s"}', '\n{\r\n"text":\n"%s"\r}\n'])
def test_a_record_is_shown_on_one_line_with_its_own_characters(value: str) -> None:
    shown = LogRecord("notes", 0, 0, datetime.now(UTC), None, (value % TEXT).encode()).to_json()
    assert "\n" not in shown
    assert "\r" not in shown
    assert json.loads(shown)["value"] == {"text": TEXT}


def test_a_record_shown_as_json_commands_no_terminal() -> None:
    text = "\u009b31m\x7f\u202ea"
    for value in (f'{{"text": "{text}"}}', text):
        record = LogRecord("notes", 0, 0, None, text.encode(), value.encode(), ((text, text.encode()),))
        shown = record.to_json()
        assert not [each for each in shown if each in text[:-1] and not each.isprintable()]
        assert json.loads(shown)["value"] in ({"text": text}, text)
        assert json.loads(shown)["headers"] == [[text, text]]


class Client:
    """Stands for the producer: what it was given, and whether that was flushed."""

    def __init__(self, *_: object) -> None:
        self.given: list[bytes] = []
        self.flushed = 0

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def send_raw(self, topic: str, key: bytes | None, value: bytes, delivered: Any) -> None:
        if len(value) > 1_000:
            raise BadInput("EVENT_REFUSED", "too large, of no line that is known")
        self.given.append(value)
        delivered(None, SimpleNamespace(offset=lambda: 0, partition=lambda: 0))

    def flush(self) -> None:
        self.flushed = len(self.given)


def test_a_line_that_is_too_large_is_named_and_those_before_it_are_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client()
    monkeypatch.setattr(lines, "Producer", lambda *_: client)
    declared = Declarations({"notes": Topic("notes", (NOTED,), max_message_bytes=1_500)})
    sound = {"specversion": "1.0", **json.loads(event(1)), "subject": "s", "dataschema": NOTED.uri}
    large = {**sound, "data": {"text": "x" * 1_000}}
    sent = [json.dumps(each).encode() for each in (sound, sound, large, sound)]
    with pytest.raises(BadInput) as caught:
        lines.send_lines(Settings(home=tmp_path), declared, "notes", sent)
    assert (caught.value.code, caught.value.fields["line"]) == ("EVENT_REFUSED", 3)
    assert "line 3: " in caught.value.what
    assert "bytes are more than the topic's 988" in caught.value.what
    assert caught.value.state == "sent before it: 2 lines"
    assert client.flushed == 2


def test_lines_that_the_broker_did_not_confirm_are_not_said_to_be_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Losing(Client):
        def send_raw(self, topic: str, key: bytes | None, value: bytes, delivered: Any) -> None:
            self.given.append(value)
            answer = SimpleNamespace(offset=lambda: 0, partition=lambda: 0)
            delivered(KafkaError(KafkaError._MSG_TIMED_OUT) if len(self.given) == 2 else None, answer)

        def failure(self, error: KafkaError, count: int, topic: str) -> TryAgain:
            return TryAgain("DELIVERY_FAILED", f"{count} of {topic}: {error}")

    monkeypatch.setattr(lines, "Producer", Losing)
    sound = json.dumps({"specversion": "1.0", **json.loads(event(1)), "subject": "s", "dataschema": NOTED.uri}).encode()
    with pytest.raises(TryAgain, match="1 of notes: "):
        lines.send_lines(Settings(home=tmp_path), DECLARED, "notes", [sound, sound, b"{"])
