"""What landing has to decide about records, written once more and as naively as it can be: `json`, the files of the
contracts, and not a line of the platform."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, InvalidOperation
from pathlib import Path
from typing import Any

Node = Mapping[str, Any]
ATTRIBUTES = ("specversion", "id", "source", "type", "subject", "time", "senttime", "receivedtime", "dataschema")
_STAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_EXACT = Context(prec=200)


@dataclass(frozen=True, slots=True)
class Record:
    """A record of the log, as the log's own client would give it."""

    topic: str
    partition: int
    offset: int
    append_time: datetime
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] | None = None
    key: bytes | None = None


@dataclass(frozen=True, slots=True)
class Decided:
    decision: str
    late: bool | None = None
    event_time: datetime | None = None
    event_id: str | None = None
    source: str | None = None
    type: str | None = None
    data: Mapping[str, Any] | None = None


QUARANTINED, DUPLICATE, TOMBSTONE = Decided("quarantined"), Decided("duplicate"), Decided("tombstone")


@dataclass
class Reader:
    """Reads the records of one topic, epoch by epoch. ``contracts``: by event type, as their files say."""

    contracts: Mapping[str, Node]
    lateness: timedelta
    horizon: timedelta
    future_bound: timedelta
    earliest_year: int
    newest: datetime | None = None
    seen: dict[tuple[str | None, str | None], datetime] = field(default_factory=dict)

    def epoch(self, records: Iterable[Record]) -> dict[tuple[int, int], Decided]:
        """What becomes of the next epoch's records, by partition and offset."""
        bound = None if self.newest is None else self.newest - self.lateness
        found = {}
        for record in sorted(records, key=lambda r: (r.append_time, r.partition, r.offset)):
            found[record.partition, record.offset] = decided = self._decided(record, bound)
            if decided.event_time is not None:
                self.newest = max(decided.event_time, self.newest or decided.event_time)
        return found

    def _decided(self, record: Record, bound: datetime | None) -> Decided:
        if record.value is None and record.key is not None and not _in_binary_mode(record):
            return TOMBSTONE
        event = _event(record)
        at = None if event is None else self._event_time(event, record.append_time)
        contract = None if event is None or at is None else self.contracts.get(event["type"])
        if event is None or at is None or contract is None or not _follows(event, contract):
            return QUARANTINED
        name, source = text_of(event["id"]), text_of(event["source"])
        first = self.seen.get((source, name))
        if first is not None and record.append_time - first <= self.horizon:
            return DUPLICATE
        self.seen[source, name] = record.append_time
        fields = contract["schema"]["properties"]
        data = {f: _typed(event["data"][f], node) for f, node in fields.items() if event["data"].get(f) is not None}
        return Decided("valid", bound is not None and at < bound, at, name, source, event["type"], data)

    def _event_time(self, event: Node, appended: datetime) -> datetime | None:
        """None where the envelope can't be read, or the time is absurd."""
        if not all(isinstance(event.get(name), str) and event[name] for name in ("id", "source", "type")):
            return None
        if event.get("subject") is not None and not (isinstance(event["subject"], str) and event["subject"]):
            return None
        said = {name: moment_of(event.get(name)) for name in ("time", "senttime", "receivedtime")}
        if any(said[name] is None and event.get(name) is not None for name in said) or said["time"] is None:
            return None
        arrived = said["receivedtime"] or appended
        try:
            at = said["time"] + (arrived - said["senttime"]) if said["senttime"] else said["time"]
        except OverflowError:
            return None
        ahead = max(at - arrived, arrived - appended)
        sound = str(event.get("specversion")).startswith("1.") and ahead <= self.future_bound
        return at if sound and at.year >= self.earliest_year else None


class Pairs(dict[str, Any]):
    """A JSON object. Of a name that comes twice the last value counts; ``earlier`` holds the others."""

    def __init__(self, pairs: Sequence[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        last = {name: place for place, (name, _) in enumerate(pairs)}
        self.earlier = [(name, value) for place, (name, value) in enumerate(pairs) if last[name] != place]


def contracts_of(files: Sequence[Path]) -> dict[str, Node]:
    return {each["name"]: each for each in (json.loads(file.read_text()) for file in files)}


class Written(float):
    """A number with a point or an exponent, as it is written."""

    def __new__(cls, text: str) -> Written:
        made = super().__new__(cls, text)
        made.text = text
        return made

    text: str


def _in_binary_mode(record: Record) -> bool:
    headers = dict(record.headers or ())
    said = _utf8(headers.get("content-type")) or ""
    return any(name.startswith("ce_") for name in headers) and not said.lower().startswith("application/cloudevents")


def _event(record: Record) -> Pairs | None:
    """In binary mode the envelope is in headers called ``ce_...``, and the value is the data."""
    if not _in_binary_mode(record):
        return object_of(record.value)
    headers = dict(record.headers or ())
    said = _utf8(headers.get("content-type"))
    media = "application/json" if said is None else said.partition(";")[0].strip().lower()
    data = object_of(record.value)
    if data is None or not re.fullmatch(r"[^;]+(/|\+)json", media):
        return None
    texts = {name: _utf8(headers.get(f"ce_{name}")) for name in ATTRIBUTES}
    return Pairs([*((name, text) for name, text in texts.items() if text is not None), ("data", data)])


def _utf8(text: bytes | None) -> str | None:
    try:
        return None if text is None else text.decode()
    except UnicodeDecodeError:
        return None


def object_of(value: bytes | None) -> Pairs | None:
    try:
        found = json.loads(
            (value or b"").decode(), parse_constant=_refuse, parse_float=Written, object_pairs_hook=Pairs
        )
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, Pairs) else None


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _follows(event: Pairs, contract: Node) -> bool:
    uri, data = f"urn:anabranch:contract:{contract['name']}:{contract['version']}", event.get("data")
    if event.get("dataschema") not in (None, uri) or not isinstance(data, Pairs):
        return False
    fields, needed = contract["schema"]["properties"], contract["schema"].get("required", ())
    # What is said twice, and once not in its type, is refused: nobody knows what was meant.
    told = [value for name, value in event.earlier if name == "data" and not isinstance(value, dict)]
    typed = {name: node["type"] for name, node in fields.items() if node.get("format") != "decimal"}
    told += [v for name, v in data.earlier if name in typed and v is not None and not is_a(v, typed[name])]
    return not told and all(
        name not in needed if data.get(name) is None else _fits(data[name], node) for name, node in fields.items()
    )


def is_a(value: Any, kind: str) -> bool:
    if kind == "string" or isinstance(value, bool):
        return kind == "string"
    whole = isinstance(value, int)
    return whole and -(2**63) <= value < 2**63 if kind == "integer" else whole or isinstance(value, float)


def _fits(value: Any, node: Node) -> bool:
    """Of the kinds of fields that our contracts have."""
    if node.get("format") == "decimal":
        return decimal_of(value, node) is not None
    if node["type"] == "string":
        if not isinstance(value, str) or not re.fullmatch(node.get("pattern", ".*"), value, re.ASCII | re.DOTALL):
            return False
        return "format" not in node or _typed(value, node) is not None
    return is_a(value, node["type"]) and node["minimum"] <= value <= node["maximum"]


def _typed(value: Any, node: Node) -> Any:
    """A value as a typed table holds it; None for a time or a date that is none."""
    if node.get("format") == "decimal":
        return decimal_of(value, node)
    if node.get("format") == "date-time":
        return moment_of(value)
    if node.get("format") == "date":
        try:
            return date.fromisoformat(value) if _DATE.fullmatch(value) else None
        except ValueError:
            return None
    return text_of(value) if isinstance(value, str) else value


def decimal_of(value: Any, node: Node) -> Decimal | None:
    """By the library's own decimals, without a pattern; None for what is none, and for what would be rounded."""
    if isinstance(value, bool) or not isinstance(value, str if node["type"] == "string" else int | float):
        return None
    text = value.text if isinstance(value, Written) else str(value)
    if set(text) - set("-.0123456789") or text.removeprefix("-")[:1] in ("", ".") or text[-1] == ".":
        return None
    try:
        found = Decimal(text)
    except InvalidOperation:
        return None
    _, digits, exponent = found.as_tuple()
    if max(len(digits), -int(exponent)) > 38 or abs(found) >= 10 ** (node["precision"] - node["scale"]):
        return None
    kept = found.quantize(Decimal(1).scaleb(-node["scale"]), context=_EXACT)
    return kept if kept == found else None


def text_of(value: str) -> str:
    """Half of a pair of code units, which JSON can escape, is no text: there is a question mark in its place."""
    return value.encode(errors="replace").decode()


def moment_of(text: Any) -> datetime | None:
    found = _STAMP.fullmatch(text) if isinstance(text, str) else None
    try:
        whole = datetime.fromisoformat(found[1] + found[3].replace("Z", "+00:00")) if found else None
        parts = timedelta(microseconds=int((found[2] or "")[:6].ljust(6, "0"))) if found else timedelta(0)
        return whole.astimezone(UTC) + parts if whole else None
    except (ValueError, OverflowError):
        return None
