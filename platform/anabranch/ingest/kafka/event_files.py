"""Reads events from a file for the CLI: CloudEvents 1.0 as JSON, one per line."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from anabranch.contracts import Event
from anabranch.contracts.model.declarations import Declarations
from anabranch.core.errors import BadInput

_NEEDED = ("id", "source", "type", "time", "data")


def read_events(file: Path, declarations: Declarations) -> list[Event]:
    """All events of ``file``. Without ``subject`` an event's id is used, without ``dataschema`` the newest contract.

    Raises BadInput EVENT_FILE, which names the line that isn't an event, or EVENT_TYPE_UNKNOWN. The data is validated
    against its contract when it is sent.
    """
    try:
        lines = file.read_bytes().decode("utf-8-sig").split("\n")  # splitlines cuts at U+2028, which JSON may hold
    except (OSError, UnicodeDecodeError) as error:
        raise _refused(f"{file} can't be read: {error}") from None
    return [_event(f"{file}:{number}", line, declarations) for number, line in enumerate(lines, 1) if line.strip()]


def _event(place: str, line: str, declarations: Declarations) -> Event:
    try:
        content = json.loads(line)
    except ValueError as error:
        raise _refused(f"{place} is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise _refused(f"{place} is not a JSON object")
    if missing := [name for name in _NEEDED if name not in content]:
        raise _refused(f"{place} lacks {', '.join(missing)}")
    kind = str(content["type"])
    newest = declarations.topic_of(kind).newest(kind)
    return Event(
        id=str(content["id"]),
        source=str(content["source"]),
        type=kind,
        subject=str(content.get("subject", content["id"])),
        time=_time(place, "time", content["time"]),
        data=content["data"],
        dataschema=str(content.get("dataschema", newest.uri)),
        senttime=_time(place, "senttime", content["senttime"]) if "senttime" in content else None,
        receivedtime=_time(place, "receivedtime", content["receivedtime"]) if "receivedtime" in content else None,
    )


def _time(place: str, name: str, text: Any) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        time = None
    if time is None or time.tzinfo is None:
        raise _refused(f"{place}: {name} is {text!r}, but a time with a zone is needed, like 2025-01-05T10:00:00Z")
    return time


def _refused(what: str) -> BadInput:
    return BadInput("EVENT_FILE", what, state="nothing was sent", next_step="correct it, and send the file again")
