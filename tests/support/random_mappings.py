"""Random mappings, and records for each, sound and spoiled. A number makes the same topic and the same records in every
run. Numbers that follow each other take the kinds of each part in turn, so some have all of them."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

import fastavro

from support.damaged_bytes import accident, fuzzed
from support.naive_mapping import Mapped, Node, Part
from support.naive_reader import Record
from support.spoiled_records import KINDS, Body, written
from support.things_topic import APPENDED

IDS: Sequence[tuple[Part, ...]] = (
    (("field", "id"),),
    (("header", "event-id"),),
    (("key", ""),),
    (("field", "id"), ("field", "data.flight")),
    (("key", ""), ("field", "data.flight")),
    (("field", "data.flight"),),
    (),
    (("header", "event-id"), ("key", ""), ("field", "id")),
)
BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"
TIMES: Sequence[tuple[str, ...]] = (
    ("date-time", "time"),
    ("unit", "time", "s"),
    ("format", "time", "yyyy-MM-dd HH:mm:ss", BERLIN),
    ("append",),
    ("unit", "time", "ms"),
    ("format", "time", "dd.MM.yyyy'T'HH:mm:ss.SSSXXX", "UTC"),
    ("unit", "time", "us"),
    ("format", "time", "yyyy/MM/dd HH:mm:ss.SSSSSS", "UTC"),
    ("unit", "time", "ns"),
    ("format", "time", "dd.MM.yyyy HH:mm", NEW_YORK),
    ("format", "time", "yyyy-MM-dd'T'HH:mm:ssXXX", BERLIN),
)
NAMES = {"Made": "thing.made", "Lost": "thing.lost"}
TYPES: Sequence[tuple[Part | None, Mapping[str, str]]] = (
    (None, {}),
    (("field", "type"), NAMES),
    (("header", "kind"), NAMES),
    (("field", "type"), {}),
    (("header", "kind"), {}),
)
SUBJECTS: Sequence[Part | None] = (
    ("field", "subject"), ("header", "who"), ("key", ""), None, ("field", "data.flight"), ("field", "data.origin"),
)  # fmt: skip
TEXT, INTEGER = {"type": "string"}, {"type": "integer"}
DATA = {
    "origin": {"type": "string", "pattern": "^[A-Z]{3}$"},
    "flight": {"type": "integer", "minimum": 0, "maximum": 9_999},
    "dep_delay": INTEGER,
    "temp": {"type": "number"},
    "size": {"type": "string", "enum": ["S", "L"]},
}
OF_JSON = {
    "day": {"type": "string", "format": "date"},
    "fare": {"type": "string", "format": "decimal", "precision": 6, "scale": 2},
}
"""Fields that only JSON has here: ``test_random_formats`` has them in Avro."""
NOISE = (("trace", b"\xff\x00"), ("event-id", None), ("kind", b"\xff"), ("ce_id", b"not-ours"), ("who", b"\xc3"))
GAPS = (datetime(2019, 3, 31, 2, 30), datetime(2019, 10, 27, 2, 30), datetime(2019, 3, 10, 2, 30))  # noqa: DTZ001
"""Local times that a clock of Berlin or New York has not, or twice."""
TEN_MEGABYTES = 10 * 2**20
T = TypeVar("T")
RARE = 0.06
"""So many records, about, have something odd in one part, beside those that are spoiled."""


@dataclass(frozen=True)
class Drawn:
    mapped: Mapped
    records: Sequence[Record]


def drawn(number: int, count: int, *, avro: bool = False, large: bool = False) -> Drawn:
    """The topic of a number, and ``count`` records of it. ``large``: and one of 10 MB."""
    chance = Random(f"{number}/{avro}")
    mapped = mapping_of(number, avro=avro)
    bodies = [_body(chance, mapped) for _ in range(count)]
    values = [_value(chance, mapped, body, place) for place, body in enumerate(bodies)]
    if large:
        body = _body(chance, mapped)
        body["source"] = "L" * TEN_MEGABYTES
        values.append(_encoded(mapped, body))
    records = [
        Record("things", 0, place, APPENDED, value, _headers(chance, mapped), _key(chance))
        for place, value in enumerate(values)
    ]
    return Drawn(mapped, records)


def mapping_of(number: int, *, avro: bool = False) -> Mapped:
    """Kinds of parts in turn, and with each round in another combination."""
    turn = number // len(TIMES)
    kinds, names = TYPES[(number + turn) % len(TYPES)]
    time = TIMES[number % len(TIMES)]
    data = DATA if avro else {**DATA, **OF_JSON}
    fields: dict[str, Node] = {
        "id": TEXT, "type": TEXT, "source": TEXT, "subject": TEXT, "time": _time_node(time),
        "data": {"type": "object", "required": ["origin"], "properties": data},
    }  # fmt: skip
    made: Node = {"type": "object", "required": ["data"], "properties": fields}
    lost: Node = {"type": "object", "required": ["source"], "properties": fields}
    return Mapped(
        {"thing.made": made} if kinds is None else {"thing.made": made, "thing.lost": lost},
        IDS[(number + 2 * turn) % len(IDS)],
        time,
        kinds,
        names,
        SUBJECTS[(number + turn) % len(SUBJECTS)],
        "/shop" if number % 2 else "things",
        _schema(fields) if avro else None,
    )


def _time_node(time: Sequence[str]) -> Node:
    if time[0] == "unit":
        return INTEGER
    return {**TEXT, "format": "date-time"} if time[0] == "date-time" else TEXT


def _schema(fields: Mapping[str, Node]) -> Node:
    """The same fields in Avro; each may be null."""

    def kind(name: str, node: Node) -> Any:
        if node["type"] == "object":
            return {"type": "record", "name": name.title(), "fields": of(node["properties"])}
        if node.get("format") == "date-time":
            return {"type": "long", "logicalType": "timestamp-millis"}
        return {"string": "string", "integer": "long", "number": "double"}[node["type"]]

    def of(nodes: Mapping[str, Node]) -> list[dict[str, Any]]:
        return [{"name": name, "type": ["null", kind(name, node)], "default": None} for name, node in nodes.items()]

    return {"type": "record", "name": "Thing", "fields": of(fields)}


def _body(chance: Random, mapped: Mapped) -> dict[str, Any]:
    data: dict[str, Any] = {
        "origin": _mostly(chance, ["JFK", "LGA"], ["jfk", ""]),
        "flight": _mostly(chance, [0, 1, 9_999], [10_000]),
        "dep_delay": chance.choice([-5, 0, 2**63 - 1, -(2**63), None]),
        "temp": chance.choice([0.1, -1.5, 1e300, 5, 2**60]),
        "size": _mostly(chance, ["S", "L"], ["XL"]),
    }
    if mapped.avro is None:
        data |= {"day": chance.choice(["2013-01-01", "2016-02-29"]), "fare": chance.choice(["12.50", "-0.05", "7"])}
    body: dict[str, Any] = {
        "id": _mostly(chance, [f"i-{chance.randrange(99)}", "ü\N{AIRPLANE}", 'a"b\\'], [""]),
        "type": _mostly(chance, [*mapped.names, "thing.made", "thing.lost"], ["thing.stolen", ""]),
        "source": "/s",
        "subject": _mostly(chance, ["thing-1", "é"], [""]),
        "data": data,
    }
    if chance.random() < RARE:
        del body[chance.choice(["id", "type", "source", "subject"])]
    return body | {"time": _time(chance, mapped.time)}


def _time(chance: Random, time: Sequence[str]) -> Any:
    sound = [timedelta(0), timedelta(days=400), timedelta(hours=1), timedelta(minutes=-59)]
    ago = _mostly(chance, sound, [timedelta(days=9_000), timedelta(hours=-2)])
    at = APPENDED - ago - timedelta(microseconds=chance.randrange(10**6))
    match time[0]:
        case "unit":
            micros = (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
            exact = {"s": micros // 10**6, "ms": micros // 1_000, "us": micros, "ns": micros * 1_000 + 999}[time[2]]
            return _mostly(chance, [exact], [0, -1, 2**63 - 1, -(2**63)])
        case "format":
            return _formatted(chance, at, time[2], time[3])
        case _:
            return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond:06}Z"


def _formatted(chance: Random, at: datetime, form: str, zone: str) -> str:
    local = chance.choice([at.astimezone(ZoneInfo(zone)).replace(tzinfo=None)] * 3 + [chance.choice(GAPS)])
    digits = f"{local.microsecond:06}"
    said = (
        form.replace("'", "").replace("yyyy", f"{local:%Y}").replace("MM", f"{local:%m}").replace("dd", f"{local:%d}")
    )
    said = said.replace("HH", f"{local:%H}").replace("mm", f"{local:%M}").replace("ss", f"{local:%S}")
    said = said.replace("SSSSSS", chance.choice([digits, digits[:2]])).replace("SSS", chance.choice([digits[:3], "5"]))
    said = said.replace("XXX", chance.choice(["Z", "+00:00", "+05:30", "-11:00"]))
    wrong = ["", said + " ", said[:-1], said.replace("0", "O", 1), f"{local:%Y-%m-%d}", said.replace("2019", "19")]
    return _mostly(chance, [said], wrong)


def _value(chance: Random, mapped: Mapped, body: Body, place: int) -> bytes | None:
    """Every second record is spoiled, in each way in turn."""
    if place % 2 == 0:
        return _encoded(mapped, body)
    spoiled = KINDS[place // 2 % len(KINDS)](chance, body)
    if mapped.avro is None or spoiled is None:
        return spoiled
    return _in_avro(chance, mapped, spoiled)


def _encoded(mapped: Mapped, body: Body) -> bytes | None:
    return written(body) if mapped.avro is None else _avro(mapped.avro, body)


def _in_avro(chance: Random, mapped: Mapped, spoiled: bytes) -> bytes:
    """What is wrong with a document, in Avro where that can hold it; else the damaged bytes of one, or of no Avro."""
    assert mapped.avro is not None
    try:
        found = _avro(mapped.avro, json.loads(spoiled))
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        found = _avro(mapped.avro, _body(chance, mapped))
        found = fuzzed(found, [accident(chance) for _ in range(chance.randint(1, 2))])
        return chance.choice([found, found, spoiled])
    return chance.choice([found, found, found + b"\x00", found[:-1]])


def _avro(schema: Node, body: Mapping[str, Any]) -> bytes:
    """By the library of a producer. Raises ValueError and others for what the schema can't hold."""
    kinds = {field["name"]: field["type"][1] for field in schema["fields"]}
    said = dict(body)
    if isinstance(kinds["time"], dict) and said.get("time") is not None:
        said["time"] = datetime.fromisoformat(said["time"])
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(dict(schema)), said)
    return stream.getvalue()


def _headers(chance: Random, mapped: Mapped) -> Sequence[tuple[str, bytes | None]] | None:
    """Of several with one name the last one counts."""
    if chance.random() < RARE:
        return None
    headers: list[tuple[str, bytes | None]] = [
        ("event-id", _mostly(chance, [b"e-1", b"e-2", "é".encode()], [b""])),
        ("kind", _mostly(chance, [name.encode() for name in [*mapped.names, "thing.made"]], [b"thing.stolen"])),
        ("who", _mostly(chance, [b"ann", b"bob"], [b""])),
    ]
    headers += chance.sample(NOISE, chance.random() < 2 * RARE)
    if chance.random() < 0.2:
        headers.insert(0, ("event-id", b"not the last one"))
    return headers


def _key(chance: Random) -> bytes | None:
    return _mostly(chance, [b"k-1", "ö".encode()], [None, b"", b"\xff"])


def _mostly(chance: Random, sound: Sequence[T], others: Sequence[T]) -> T:
    return chance.choice(others if chance.random() < RARE else sound)
