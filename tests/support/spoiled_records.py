"""What happens to the bytes of a record, or was wrong with them from the start. Not all of it makes them unreadable."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from support.damaged_bytes import accident, fuzzed

Body = Mapping[str, Any]
Spoil = Callable[[Random, Body], bytes | None]

HUGE = 10**29 + 7
NUMBERS = ("flight", "dep_delay", "arr_delay", "air_time", "distance", "temp", "visib", "seats")


def written(body: Body) -> bytes:
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()


def not_utf8(chance: Random, body: Body) -> bytes:
    value = written(body)
    at = chance.randrange(1, len(value))
    return value[:at] + chance.choice([b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"\x80"]) + value[at:]


def cut(chance: Random, body: Body) -> bytes:
    value = written(body)
    return value[: chance.randrange(1, len(value))]


def no_number(chance: Random, body: Body) -> bytes:
    """NaN and the like: Python writes them, JSON has no word for them."""
    return written(_with(chance, body, chance.choice([float("nan"), float("inf"), float("-inf")])))


def beyond_doubles(chance: Random, body: Body) -> bytes:
    return written(_with(chance, body, "XX")).replace(b'"XX"', chance.choice([b"1e999", b"-1e999", b"1e-999"]))


def names_twice(chance: Random, body: Body) -> bytes:
    """Of a name that comes twice the last one counts, where both are of its type."""
    value, field = written(body), chance.choice(sorted(body["data"]))
    again = json.dumps(body["data"][field])
    return chance.choice(
        [
            b'{"id":"first",' + value[1:],
            value[:-1] + b',"id":"twice-' + str(chance.randrange(9)).encode() + b'"}',
            value[:-1] + b',"data":{}}',
            b'{"type":"flight.unknown","data":[],' + value[1:],
            value.replace(b'"data":{', f'"data":{{"{field}":{again},'.encode()),
            value.replace(b'"data":{', f'"data":{{"{field}":{{"x":1}},'.encode()),
        ]
    )


def thirty_digits(chance: Random, body: Body) -> bytes:
    return written(_with(chance, body, chance.choice([HUGE, -HUGE, 2**63])))


def deep(chance: Random, body: Body) -> bytes:
    nested = "[" * 100 + "1" + "]" * 100 if chance.random() < 0.5 else '{"a":' * 100 + "1" + "}" * 100
    return written(_with(chance, body, "XX")).replace(b'"XX"', nested.encode())


def empty(_: Random, __: Body) -> bytes:
    return b""


def tombstone(_: Random, __: Body) -> None:
    return None


def large(chance: Random, body: Body) -> bytes:
    return written({**body, "data": {**body["data"], "zz": chance.choice("yä\\") * chance.choice([70_000, 300_000])}})


def wrong_type(chance: Random, body: Body) -> bytes:
    other = chance.choice(["12", "", "x", 12, 12.0, 1.5, True, None, [], ["JFK"], {}, {"a": 1}, "2013-02-30", "JFK\n"])
    if chance.random() < 0.3:
        return written({**body, chance.choice(sorted(body)): other})
    return written({**body, "data": {**body["data"], chance.choice(sorted(body["data"])): other}})


def no_object(chance: Random, body: Body) -> bytes:
    value = written(body)
    return chance.choice([b"null", b"[]", b'"x"', b"12", b"true", b"{}", b" ", b"[" + value + b"]"])


def more_behind(chance: Random, body: Body) -> bytes:
    value = written(body)
    more = [value, b"," + value, b"}", b',"x":1', b',"event":' + value, b" garbage", b"\x00", b"//", b'{"x":1}']
    return value + chance.choice(more)


def missing(chance: Random, body: Body) -> bytes:
    if chance.random() < 0.5:
        name = chance.choice(sorted(body))
        return written({n: v for n, v in body.items() if n != name})
    field = chance.choice(sorted(body["data"]))
    return written({**body, "data": {n: v for n, v in body["data"].items() if n != field}})


def foreign(chance: Random, body: Body) -> bytes:
    kind = chance.choice(
        ["flight.departed", "weather.observed", "search.saved", "plane.registered", "flight.teleported"]
    )
    uri = f"urn:anabranch:contract:{kind}:{chance.choice([1, 2])}"
    return written({**body, **chance.choice([{"type": kind}, {"type": kind, "dataschema": uri}, {"dataschema": uri}])})


def absurd_time(chance: Random, body: Body) -> bytes:
    times = ["1999-12-31T23:59:59.999999Z", "2999-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"]
    times += ["2013-01-01", "2013-01-01T10:00:00", "now", "2013-13-01T00:00:00Z", "2013-01-01T24:00:00Z"]
    return written({**body, chance.choice(["time", "time", "senttime", "receivedtime"]): chance.choice(times)})


def written_otherwise(chance: Random, body: Body) -> bytes:
    """Other bytes that say the same."""
    return chance.choice(
        [
            json.dumps(body, indent=1).encode(),
            b" \r\n\t" + written(body) + b"\n",
            json.dumps(dict(reversed(list(body.items())))).encode(),
            written({**body, "zz": "näh \N{AIRPLANE}", "\N{AIRPLANE}": 1}),
            json.dumps({**body, "subject": "half \ud800 of a pair"}).encode(),
        ]
    )


def accidents(chance: Random, body: Body) -> bytes:
    return fuzzed(written(body), [accident(chance) for _ in range(chance.randint(1, 2))])


def _with(chance: Random, body: Body, value: Any) -> dict[str, Any]:
    """``value`` in the place of a number, or of anything, or under a name that no contract knows."""
    data = dict(body["data"])
    known = [name for name in NUMBERS if name in data] or sorted(data)
    name = chance.choice([*known, chance.choice(sorted(data)), "zz"])
    return {**body, "zz": value} if chance.random() < 0.2 else {**body, "data": {**data, name: value}}


KINDS: tuple[Spoil, ...] = (
    not_utf8, cut, no_number, beyond_doubles, names_twice, thirty_digits, deep, empty, tombstone, large, wrong_type,
    no_object, more_behind, missing, foreign, absurd_time, written_otherwise, accidents,
)  # fmt: skip
