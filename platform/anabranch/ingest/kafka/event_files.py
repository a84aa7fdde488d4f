"""Events in a file: CloudEvents 1.0 as JSON, one a line."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from anabranch.contracts import Declarations, Event
from anabranch.core.errors import BadInput

_NEEDED = ("id", "source", "type", "time", "data")


def read_events(file: Path, declarations: Declarations) -> list[Event]:
    """All events of ``file``. ``subject`` may be left out, and ``dataschema``: then it is the newest contract's.

    BadInput EVENT_FILE for a line that is none, naming it; EVENT_TYPE_UNKNOWN. Whether data keeps its contract is
    checked when it is sent.
    """
    try:
        lines = file.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise _refused(f"{file} can't be read: {error}") from None
    return [_event(f"{file}:{number}", line, declarations) for number, line in enumerate(lines, 1) if line.strip()]


def _event(place: str, line: str, declarations: Declarations) -> Event:
    try:
        said = json.loads(line)
    except ValueError as error:
        raise _refused(f"{place} is no JSON: {error}") from None
    if not isinstance(said, dict):
        raise _refused(f"{place} is no object")
    if missing := [name for name in _NEEDED if name not in said]:
        raise _refused(f"{place} has no {', '.join(missing)}")
    kind = str(said["type"])
    contracts = [c for c in declarations.topic_of(kind).contracts if c.name == kind]
    newest = max(contracts, key=lambda contract: contract.version)
    return Event(
        id=str(said["id"]),
        source=str(said["source"]),
        type=kind,
        subject=str(said.get("subject", said["id"])),
        time=_time(place, "time", said["time"]),
        data=said["data"],
        dataschema=str(said.get("dataschema", newest.uri)),
        senttime=_time(place, "senttime", said["senttime"]) if "senttime" in said else None,
        receivedtime=_time(place, "receivedtime", said["receivedtime"]) if "receivedtime" in said else None,
    )


def _time(place: str, name: str, text: Any) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        time = None
    if time is None or time.tzinfo is None:
        raise _refused(f"{place}: {name} is {text!r}, which is no time with a zone, like 2025-01-05T10:00:00Z")
    return time


def _refused(what: str) -> BadInput:
    return BadInput("EVENT_FILE", what, state="nothing was sent", next_step="mend that line, and send the file again")
