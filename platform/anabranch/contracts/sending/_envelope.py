"""The envelope of an event: CloudEvents 1.0, as JSON in structured mode."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

SPEC_VERSION = "1.0"


@dataclass(frozen=True, slots=True)
class Event:
    """An immutable fact. Times are aware datetimes.

    ``time`` is when it happened and ``senttime`` when the device sent it, both by the device's clock;
    ``receivedtime`` is when the first server got it, by the server's clock. If ``senttime`` is given, landing
    corrects the event time by ``receivedtime - senttime``.
    """

    id: str
    source: str
    type: str
    subject: str
    time: datetime
    data: Mapping[str, Any] = field(hash=False)
    dataschema: str
    senttime: datetime | None = None
    receivedtime: datetime | None = None

    def to_json(self) -> bytes:
        """The bytes of the log record. The record's key is ``subject``. A ``Decimal`` becomes a string of its digits,
        because ``json`` can't write one as a number; bytes become base64.

        Raises TypeError or ValueError for a value that JSON doesn't have, and a time without a zone.
        """
        body: dict[str, Any] = {
            "specversion": SPEC_VERSION,
            "id": self.id,
            "source": self.source,
            "type": self.type,
            "subject": self.subject,
            "time": rfc3339(self.time),
            "dataschema": self.dataschema,
            "datacontenttype": "application/json",
        }
        if self.senttime is not None:
            body["senttime"] = rfc3339(self.senttime)
        if self.receivedtime is not None:
            body["receivedtime"] = rfc3339(self.receivedtime)
        body["data"] = dict(self.data)
        return json.dumps(body, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=json_text).encode()


def json_text(value: object) -> str:
    """What ``json`` writes for a value that it has no type for: a decimal's digits, bytes in base64. Raises TypeError
    for any other."""
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} is no JSON")


def rfc3339(moment: datetime) -> str:
    """``2013-01-01T10:15:00Z``. Raises ValueError for a datetime without a time zone."""
    if moment.tzinfo is None:
        raise ValueError(f"{moment} has no time zone")
    return moment.isoformat().replace("+00:00", "Z")
