"""Reads events from a file for the CLI: CloudEvents 1.0 as JSON, one per line, to be sent with their own characters."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from anabranch.contracts import CloudEvents
from anabranch.contracts.model.declarations import Declarations
from anabranch.contracts.sending import SPEC_VERSION, EventValidator
from anabranch.core.errors import BadInput
from anabranch.core.text import strict_json
from anabranch.ingest.kafka.batches import size_of
from anabranch.ingest.kafka.producer import RECORD_OVERHEAD

_NEEDED: Final = ("id", "source", "type", "time", "data")
_TEXTS: Final = ("id", "source", "type")
_TIMES: Final = ("time", "senttime", "receivedtime")
_HALF: Final = re.compile(r"[\ud800-\udfff]")
"""Half of a surrogate pair is no text."""


@dataclass(frozen=True, slots=True)
class FileEvent:
    """An event that was held to its contract. ``value``: its line, with what it lacked of the envelope in front."""

    topic: str
    key: bytes
    value: bytes


def read_events(file: Path, declarations: Declarations) -> list[FileEvent]:
    """All events of ``file``. Without ``subject`` an event's id is used, without ``dataschema`` the newest contract.

    Raises BadInput EVENT_FILE or EVENT_REFUSED, which name the line that isn't an event, or breaks its contract, or
    EVENT_TYPE_UNKNOWN.
    """
    try:
        lines = file.read_bytes().decode("utf-8-sig").split("\n")  # splitlines cuts at U+2028, which JSON may hold
    except (OSError, ValueError) as error:  # a name with a null byte is a ValueError
        raise _refused(f"{file} can't be read: {error}") from None
    reader = _Reader(declarations)
    return [reader.event(f"{file}:{number}", line) for number, line in enumerate(lines, 1) if line.strip()]


class _Reader:
    def __init__(self, declarations: Declarations) -> None:
        self._declarations = declarations
        self._validators: dict[str, EventValidator] = {}

    def event(self, place: str, line: str) -> FileEvent:
        content = _content(place, line)
        kind = content["type"]
        topic = self._declarations.topic_of(kind)
        if not isinstance(topic.records, CloudEvents):
            raise _refused(f"{place}: records of {topic.name} have no envelope (use anabranch produce records)")
        envelope = {"specversion": SPEC_VERSION, "subject": content["id"], "dataschema": topic.newest(kind).uri}
        missing = {name: value for name, value in envelope.items() if name not in content}
        value = strict_json.with_fields(line.strip(strict_json.SPACE), missing).encode()
        validator = self._validators.setdefault(topic.name, EventValidator(topic.contracts))
        try:
            validator.check_bytes(value)
        except BadInput as error:
            raise BadInput(
                error.code,
                f"{place}: {error.what}",
                state="nothing was sent",
                next_step=error.next_step,
                **error.fields,
            ) from None
        key = ({**content, **missing})["subject"].encode("utf-8", "replace")
        if (size := size_of(key, value, None)) > (limit := topic.max_message_bytes - RECORD_OVERHEAD):
            raise _refused(f"{place}: {size} bytes are more than the {limit} of topic {topic.name}")
        return FileEvent(topic.name, key, value)


def _content(place: str, line: str) -> dict[str, Any]:
    try:
        content = strict_json.loads(line)
    except ValueError as error:
        raise _refused(f"{place} is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise _refused(f"{place} is not a JSON object")
    if missing := [name for name in _NEEDED if name not in content]:
        raise _refused(f"{place} lacks {', '.join(missing)}")
    for name in _TEXTS:
        if not isinstance(content[name], str) or not content[name] or _HALF.search(content[name]):
            raise _refused(f"{place}: {name} is {content[name]!a}, but a text is needed")
    for name in _TIMES:
        if content.get(name) is not None or name == "time":
            _check_time(place, name, content[name])
    return content


def _check_time(place: str, name: str, text: Any) -> None:
    try:
        time = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        time = None
    if time is None or time.tzinfo is None:
        raise _refused(f"{place}: {name} is {text!r}, but a time with a zone is needed, like 2025-01-05T10:00:00Z")


def _refused(what: str) -> BadInput:
    return BadInput("EVENT_FILE", what, state="nothing was sent", next_step="correct it, and send the file again")
