"""CloudEvents in binary mode, in plain Python: a record's headers hold the envelope, its value the data."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from anabranch.contracts.model.records import Headers, last_header

PREFIX: Final = "ce_"
CONTENT_TYPE: Final = "content-type"
WHOLE: Final = "application/cloudevents"
JSON_TYPE: Final = r"(?i)^\s*([^;]+/json|[^;]+\+json)\s*(;.*)?$"


def attributes(headers: Headers) -> Mapping[str, Any] | None:
    """The envelope of a record in binary mode; None if it is in structured mode."""
    names = {key for key, _ in headers or () if key.startswith(PREFIX)}
    if not names or (last_header(headers, CONTENT_TYPE) or "").lower().startswith(WHOLE):
        return None
    return {name.removeprefix(PREFIX): last_header(headers, name) for name in names}


def other_content(headers: Headers) -> str:
    """What a record in binary mode says that its data is, if that isn't JSON; otherwise empty."""
    said = last_header(headers, CONTENT_TYPE)
    return "" if said is None or re.match(JSON_TYPE, said) else said


def as_structured(value: bytes, headers: Headers) -> bytes:
    """The value of a record; of one in binary mode, as it would be in structured mode."""
    envelope = attributes(headers)
    if envelope is None:
        return value
    front = json.dumps({name: text for name, text in envelope.items() if text is not None})[:-1]
    return front.encode() + (b', "data": ' if len(front) > 1 else b'"data": ') + value + b"}"
