"""Infers a contract and a mapping from sample records (``infer_events``: from CloudEvents). What it isn't sure of it
says in a ``description`` or a comment, for a person to decide."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

from anabranch.contracts.fields.decimals import WrittenFloat
from anabranch.contracts.fields.text_formats import DATE, DATE_TIME, TEXT_FORMATS, has_format, is_plain
from anabranch.contracts.model._samples import check_name, read_records
from anabranch.contracts.model.contract import FIELD_NAME, SENT_NAME, sent_name
from anabranch.contracts.model.inferred import Inferred
from anabranch.core.errors import BadInput
from anabranch.core.text.terminal_text import in_one_line

_MONEY: Final = re.compile(r"-?\d{1,16}\.\d{2}", re.ASCII)
_WHOLE: Final = re.compile(r"-?\d{1,16}", re.ASCII)
"""Of numbers that the proposed decimal holds."""
_AS_DECIMAL: Final = 'looks like money; exact as {{"type": "{}", "format": "decimal", "precision": 18, "scale": 2}}'
_LOCAL_TIME: Final = re.compile(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}", re.ASCII)
NO_FIELDS: Final = "give other records; what has no fields may be declared as Raw"
_COUNT: Final = re.compile(r"\d{9,19}(\.\d+)?", re.ASCII)
_MOSTLY: Final = 0.8
_FIRST_YEAR, _LAST_YEAR = 1990, 2100
_ENVELOPE: Final = frozenset({"event_time", "event_id", "source", "subject", "log_partition", "log_offset"})
_MOST_NAMES, _IN_COMMON = 20, 0.5
"""Of the names of an object, and the share of them that an average one of these objects has: else it may be a map."""
_TIMES: Final = ("event_time", "eventtime", "time", "timestamp", "ts", "created", "occurred", "happened", "at")
"""Parts of names of times, the best first."""


@dataclass
class _Seen:
    """All values of one field: their types, and what is below an object or in an array."""

    count: int = 0
    nulls: int = 0
    kinds: set[str] = field(default_factory=set)
    values: set[str] = field(default_factory=set)
    """Texts of scalars: ids are different in each record."""
    fields: dict[str, _Seen] = field(default_factory=dict)
    items: _Seen | None = None

    def add(self, value: Any) -> None:
        self.count += 1
        if value is None:
            self.nulls += 1
            return
        kind = _kind(value)
        self.kinds.add(kind)
        if kind == "object":
            for name, child in value.items():
                self.fields.setdefault(name, _Seen()).add(child)
        elif kind == "array":
            self.items = self.items or _Seen()
            for item in value:
                self.items.add(item)
        else:
            self.values.add(value.text if isinstance(value, WrittenFloat) else str(value))

    def merge(self, other: _Seen) -> None:
        """Add all values of another field."""
        self.count += other.count
        self.nulls += other.nulls
        self.kinds |= other.kinds
        self.values |= other.values
        for name, child in other.fields.items():
            self.fields.setdefault(name, _Seen()).merge(child)
        if other.items is not None:
            self.items = self.items or _Seen()
            self.items.merge(other.items)


def infer(name: str, lines: Iterable[str], *, broken: bool = False) -> Inferred:
    """Infer the contract ``name`` from records, one JSON object a line.

    ``broken``: some records may be anything else, as in any topic; they are counted in ``left_out``. Raises BadInput
    SAMPLE, which names the line, or CONTRACT_NAME.
    """
    check_name(name)
    return infer_records(name, *read_records(lines, broken=broken))


def infer_records(name: str, records: Iterable[Mapping[str, Any]], left_out: list[str]) -> Inferred:
    """The same from records that were read. ``left_out``: what is known to be left out already. Raises BadInput
    SAMPLE."""
    root = _Seen()
    for record in records:
        root.add(dict(record))
    schema = _object(root, "", left_out)
    if not schema["properties"]:
        why = "; ".join(left_out[:3]) or "its objects are empty"
        raise BadInput("SAMPLE", f"the sample has no field that a column can hold: {why}", next_step=NO_FIELDS)
    money = tuple(own for own, node in schema["properties"].items() if _is_money(root.fields[sent_name(own, node)]))
    guessed = _id_of(root, schema), _time_of(root, schema)
    return Inferred(name, schema, tuple(left_out), root.count, *guessed, money=money)


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer" if -(2**63) <= value < 2**63 else "integer beyond 64 bits"
    if isinstance(value, str):
        return _text_kind(value)
    return {WrittenFloat: "number", dict: "object", list: "array"}[type(value)]


def _text_kind(text: str) -> str:
    try:
        if re.fullmatch(DATE_TIME, text):
            datetime.fromisoformat(text)
            return "string date-time"
        if re.fullmatch(DATE, text):
            date.fromisoformat(text)
            return "string date"
    except ValueError:
        pass
    return next((f"string {name}" for name in TEXT_FORMATS if has_format(text, name)), "string")


def _object(seen: _Seen, path: str, left_out: list[str]) -> dict[str, Any]:
    properties, required = {}, []
    folded = [own_name(name).lower() for name in seen.fields]
    for name, child in seen.fields.items():
        at = f"{path}{in_one_line(name)}"
        own = own_name(name)
        if not FIELD_NAME.fullmatch(own) or not SENT_NAME.fullmatch(name):
            left_out.append(f"{at}: left out, no column can be named for it")
        elif folded.count(own.lower()) > 1:
            left_out.append(f"{at}: left out, another field differs in case only")
        elif (node := _node(child, at, left_out)) is not None:
            properties[own] = {**node, "sent_as": name} if own != name else node
            if child.count == seen.count and not child.nulls:
                required.append(own)
            elif child.nulls:
                nulls = f"null in {child.nulls} of {child.count} records of the sample"
                known = node.get("description")
                properties[own]["description"] = f"{known}; {nulls}" if known else nulls
    return {"type": "object", **({"required": required} if required else {}), "properties": properties}


def own_name(name: str) -> str:
    """The column's name for a field: views have columns with the names of the envelope already."""
    own = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
    return f"{own}_sent" if own.lower() in _ENVELOPE else own


def _node(seen: _Seen, path: str, left_out: list[str]) -> dict[str, Any] | None:
    kinds = set(seen.kinds)
    if kinds == {"integer", "number"}:
        kinds = {"number"}
    if len(kinds) > 1 and all(kind.startswith("string") for kind in kinds):
        kinds = {"string"}
    if len(kinds) != 1:
        what = " and ".join(sorted(kinds)) or "null only"
        left_out.append(f"{path}: left out, the sample has {what}")
        return None
    (kind,) = kinds
    if kind == "object":
        found = _map(seen, path, left_out) or _object(seen, f"{path}.", left_out)
        if found.get("properties") == {}:
            left_out.append(f"{path}: left out, it has no fields")
            return None
        return found
    if kind == "array":
        items = _inside(seen.items, f"{path}[]", left_out) if seen.items else None
        if items is None:
            lack = "fields" if seen.items and seen.items.kinds == {"object"} else "single type"
            left_out.append(f"{path}: left out, its items have no {lack}")
            return None
        return {"type": "array", "items": items}
    if kind == "integer beyond 64 bits":
        left_out.append(f"{path}: left out, it has integers beyond 64 bits; a decimal(20,0) holds those of uint64")
        return None
    type_, _, format_ = kind.partition(" ")
    money = {"description": _AS_DECIMAL.format(type_)} if _is_money(seen) else {}
    return {"type": type_, **({"format": format_} if format_ else {}), **money}


def _is_money(seen: _Seen) -> bool:
    """Whether all values have two digits behind the point; of numbers, those that have a point."""
    if seen.kinds == {"string"}:
        return all(map(_MONEY.fullmatch, seen.values))
    fractions = [text for text in seen.values if not _WHOLE.fullmatch(text)]
    return "number" in seen.kinds <= {"number", "integer"} and all(map(_MONEY.fullmatch, fractions))


def _map(seen: _Seen, path: str, left_out: list[str]) -> dict[str, Any] | None:
    """A map, if an object has many names, most of them in few of the records, and values of one type."""
    objects, names = seen.count - seen.nulls, len(seen.fields)
    if names <= _MOST_NAMES or sum(child.count for child in seen.fields.values()) > _IN_COMMON * names * objects:
        return None
    values = _Seen()
    for child in seen.fields.values():
        values.merge(child)
    unsure: list[str] = []
    node = _inside(values, f"{path}.*", unsure)
    if node is None:
        return None
    left_out += [*unsure, f"{path}: a map, since its {names} names differ from record to record; check that"]
    return {"type": "object", "additionalProperties": node}


def _inside(seen: _Seen, path: str, left_out: list[str]) -> dict[str, Any] | None:
    """The node of an array's items, or a map's values."""
    node = _node(seen, path, left_out)
    return None if node is None else {**_plain(node), **({"nullable": True} if seen.nulls else {})}


def _plain(node: Mapping[str, Any]) -> dict[str, Any]:
    """Inside of arrays and maps nothing is required: landing doesn't check it there."""
    found = {key: value for key, value in node.items() if key not in ("required", "description")}
    if "properties" in node:
        found["properties"] = {name: _plain(child) for name, child in node["properties"].items()}
    return found


def is_named_id(name: str) -> bool:
    """Whether a field is called an id."""
    return re.search(r"(^|_)id$|Id$|ID$|uuid|key$|number$|_no$", name) is not None


def _id_of(root: _Seen, schema: Mapping[str, Any]) -> str | None:
    """A required field with a different value in each record, or in most of them if it is called an id: any log has
    records that were sent twice."""
    nodes = {name: schema["properties"][name] for name in schema.get("required", ())}
    times = _time_fields(root, schema)
    different = {
        name: len(root.fields[sent_name(name, node)].values) / root.count
        for name, node in nodes.items()
        if node["type"] in ("string", "integer") and is_plain(node) and name not in times and root.count > 1
    }
    named = [name for name, share in different.items() if share >= _MOSTLY and is_named_id(name)]
    return next(iter([*named, *(name for name, share in different.items() if share == 1)]), None)


def _time_of(root: _Seen, schema: Mapping[str, Any]) -> str | None:
    candidates = _time_fields(root, schema)
    return candidates[min(candidates, key=time_rank)] if candidates else None


def time_rank(name: str) -> int:
    """How likely a field's name is that of the event time; the least is the likeliest."""
    folded = name.lower()
    return next((place for place, part in enumerate(_TIMES) if part in folded), len(_TIMES))


def _time_fields(root: _Seen, schema: Mapping[str, Any]) -> dict[str, str]:
    """Fields that may be the event time, with the Python that maps them."""
    found = {}
    for name in schema.get("required", ()):
        node = schema["properties"][name]
        if node.get("format") == "date-time":
            found[name] = f'"{name}"'
            continue
        seen = root.fields[sent_name(name, node)]
        if node["type"] == "string" and "format" not in node and all(map(_is_local_time, seen.values)):
            found[name] = f'TimeField("{name}", format="yyyy-MM-dd HH:mm:ss", zone="UTC")'
        if time_rank(name) < len(_TIMES) and "format" not in node and (unit := _unit(seen.values)):
            found[name] = f'TimeField("{name}", unit="{unit}")'
    return found


def _is_local_time(text: str) -> bool:
    """Whether a text is a time without a zone, as databases write them into files."""
    try:
        return _LOCAL_TIME.fullmatch(text) is not None and bool(datetime.fromisoformat(text))
    except ValueError:
        return False


def _unit(texts: Collection[str]) -> str | None:
    """The unit by which all values are times of our days: numbers, or texts of digits."""
    if not texts or not all(map(_COUNT.fullmatch, texts)):
        return None
    numbers = [Decimal(text) for text in texts]
    first, last = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (_FIRST_YEAR, _LAST_YEAR))
    units = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
    fits = (unit for unit, size in units.items() if all(first * size <= number < last * size for number in numbers))
    return next(fits, None)
