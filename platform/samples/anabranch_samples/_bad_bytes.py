"""Breaks single records. Each function takes a good event's bytes (or data) and returns a bad one."""

from __future__ import annotations

import json
from collections.abc import Callable, MutableMapping
from typing import Any

import numpy as np

Body = MutableMapping[str, Any]

_HUGE = 200_000
_DEEP = 20_000

ABSURD_TIMES: tuple[Any, ...] = (
    "1900-01-01T00:00:00Z",
    "2100-01-01T00:00:00Z",
    "2013-13-45T99:99:99Z",
    "0000-00-00T00:00:00Z",
    "+292278994-08-17T07:12:55Z",
    "yesterday",
    "",
    1357034400,
)
_CHANGED = {"dep_delay": 4000, "arr_delay": 4000, "distance": 11_999, "visib": 99.0}


def other_payload(data: str) -> str:
    """Returns data that still satisfies its contract, with values that the tables never have."""
    content = json.loads(data)
    for name, value in _CHANGED.items():
        if name in content:
            content[name] = value
            return _dump(content)
    content["dest"] = "ZZZ"
    return _dump(content)


def malformed(value: bytes, rng: np.random.Generator) -> bytes | None:
    """Returns bytes that can't be read as an event; None is a record without a value."""
    makers: tuple[Callable[[], bytes | None], ...] = (
        lambda: b"\xff" + rng.bytes(64),
        lambda: value[: int(rng.integers(1, len(value) - 1))],
        lambda: value.replace(b'"id":"', b'"id":"\xc3\x28\xa0', 1),
        lambda: b'{"data":' * _DEEP + b"1" + b"}" * _DEEP,
        lambda: b'"' + b"x" * _HUGE + b'"',
        lambda: b"[]",
        lambda: b"",
        lambda: None,
    )
    return makers[int(rng.integers(len(makers)))]()


def broken_contract(value: bytes, rng: np.random.Generator) -> bytes:
    """Returns an event that can be read, but violates its contract or its envelope."""
    body = json.loads(value)
    name = _BREAKS[int(rng.integers(len(_BREAKS)))]
    name(body)
    return _dump(body).encode()


def absurd_time(value: bytes, rng: np.random.Generator) -> bytes:
    """Returns an event whose time is far in the past, far in the future, or not a time."""
    body = json.loads(value)
    body["time"] = ABSURD_TIMES[int(rng.integers(len(ABSURD_TIMES)))]
    return _dump(body).encode()


def _lacks_origin(body: Body) -> None:
    del body["data"]["origin"]


def _null_origin(body: Body) -> None:
    body["data"]["origin"] = None


def _wrong_type(body: Body) -> None:
    body["data"]["origin"] = {"airport": [body["data"]["origin"]]}


def _hostile_text(body: Body) -> None:
    body["data"]["origin"] = "'); DROP TABLE flights; -- ${jndi:ldap://x} `rm -rf /`"


def _out_of_range(body: Body) -> None:
    body["data"]["flight" if "flight" in body["data"] else "visib"] = -1_000_000


def _no_object(body: Body) -> None:
    body["data"] = _dump(body["data"])


def _unknown_type(body: Body) -> None:
    body["type"] = "flight.teleported"


def _unknown_version(body: Body) -> None:
    body["dataschema"] = body["dataschema"].rsplit(":", 1)[0] + ":99"


def _lacks_id(body: Body) -> None:
    del body["id"]


def _lacks_source(body: Body) -> None:
    body["source"] = None


_BREAKS: tuple[Callable[[Body], None], ...] = (
    _lacks_origin, _null_origin, _wrong_type, _hostile_text, _out_of_range, _no_object,
    _unknown_type, _unknown_version, _lacks_id, _lacks_source,
)  # fmt: skip


def _dump(content: Any) -> str:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False)
