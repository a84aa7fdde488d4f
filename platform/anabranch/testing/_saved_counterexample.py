"""Save a failed proof to a file, with everything that is needed to replay it exactly on any machine."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.core.errors import BadInput
from anabranch.testing._fake_landing import Event
from anabranch.testing._scenario import Fault, Log, Step

if TYPE_CHECKING:
    from anabranch.testing._counterexample import Finding
    from anabranch.views import View

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Replay:
    """``log`` failed with ``code`` for this view version, when its definition had this ``fingerprint``.

    ``partition``: the day that failed, if the failure is one of a day.
    """

    view: str
    version: int
    fingerprint: str
    code: str
    seed: int
    log: Log
    partition: date | None = None


def write(folder: Path, view: View, found: Finding, seed: int) -> Path:
    """Writes a finding. The same view, seed and finding get the same file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{view.name}-v{view.version}-{found.code.removeprefix('PROOF_').lower()}-{seed}.json"
    content = {
        "anabranch_proof": _FORMAT,
        "view": view.name,
        "version": view.version,
        "fingerprint": view.fingerprint,
        "code": found.code,
        "seed": seed,
        "partition": None if (day := found.fields.get("partition")) is None else day.isoformat(),
        "steps": [
            {"then": step.then.name, "epochs": [[_event(event) for event in epoch] for epoch in step.epochs]}
            for step in found.log.steps
        ],
    }
    path.write_text(json.dumps(content, indent=1) + "\n")
    return path


def read(path: Path) -> Replay:
    """Reads a file that ``write`` wrote. Raises BadInput REPLAY_UNREADABLE."""
    try:
        content = json.loads(path.read_text())
        if content["anabranch_proof"] != _FORMAT:
            raise ValueError(f"format {content['anabranch_proof']}")
        steps = tuple(
            Step(tuple(tuple(_read_event(e) for e in epoch) for epoch in step["epochs"]), Fault[step["then"]])
            for step in content["steps"]
        )
        names = ("view", "version", "fingerprint", "code", "seed")
        day = content.get("partition")  # older files lack it
        failed = None if day is None else date.fromisoformat(day)
        return Replay(**{name: content[name] for name in names}, log=Log(steps), partition=failed)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(
            "REPLAY_UNREADABLE",
            f"{path} can't be replayed: {type(error).__name__}: {error}",
            state="nothing was proven",
            next_step="name a file that a failed proof wrote",
            path=str(path),
        ) from None


def _event(event: Event) -> dict[str, Any]:
    return {
        "type": event.type,
        "time": event.time.astimezone(UTC).isoformat(),
        "id": event.id,
        "data": _plain(event.data),
        "partition": event.partition,
        "broken": event.broken,
        "source": event.source,
        "subject": event.subject,
        "clock_us": event.clock // timedelta(microseconds=1),
        "version": event.version,
    }


def _read_event(content: Mapping[str, Any]) -> Event:
    rest = {name: content[name] for name in ("type", "id", "partition", "broken", "source", "subject")}
    clock = timedelta(microseconds=content["clock_us"])
    rest |= {"time": datetime.fromisoformat(content["time"]), "data": _typed(content["data"]), "clock": clock}
    return Event(version=content.get("version"), **rest)  # files from before contracts had versions lack it


def _plain(value: Any) -> Any:
    """Encodes times, dates, decimals and bytes, which JSON lacks, as objects with one key that no field can have."""
    match value:
        case datetime():
            return {"$time": value.astimezone(UTC).isoformat()}
        case date():
            return {"$date": value.isoformat()}
        case Decimal():
            return {"$decimal": format(value, "f")}
        case bytes():
            return {"$bytes": base64.b64encode(value).decode()}
        case dict():
            return {name: _plain(inner) for name, inner in value.items()}
        case list() | tuple():
            return [_plain(inner) for inner in value]
        case _:
            return value


def _typed(value: Any) -> Any:
    match value:
        case {"$time": str(moment)}:
            return datetime.fromisoformat(moment)
        case {"$date": str(day)}:
            return date.fromisoformat(day)
        case {"$decimal": str(digits)}:
            return Decimal(digits)
        case {"$bytes": str(content)}:
            return base64.b64decode(content)
        case dict():
            return {name: _typed(inner) for name, inner in value.items()}
        case list():
            return [_typed(inner) for inner in value]
        case _:
            return value
