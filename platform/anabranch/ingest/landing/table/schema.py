"""The columns of a landing table: a record's coordinates, its bytes, its envelope, and what was decided about it."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa

from anabranch.contracts import Topic
from anabranch.contracts.fields.decimals import type_name
from anabranch.contracts.fields.field_types import is_map, is_nested
from anabranch.contracts.fields.text_formats import is_bytes

VALID: Final = "valid"
QUARANTINED: Final = "quarantined"
DUPLICATE: Final = "duplicate"
LOADED: Final = "loaded"
"""An event that came from a file (ADR 0042): it is in batch only, moves no watermark, and is never late."""
TOMBSTONE: Final = "tombstone"
"""A record with a key and no value: its producer has deleted the key (ADR 0039). No event."""
EVENTS: Final = (VALID, LOADED)
IS_EVENT: Final = f"decision IN ('{VALID}', '{LOADED}')"
"""SQL: a row that is an event, from the log or from a file."""
BATCH_ONLY: Final = f"(late OR decision = '{LOADED}')"
"""SQL: an event that no stream reads. Only for rows that are events."""

_TIME = pa.timestamp("us", "UTC")
_HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
FIXED: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("append_time", _TIME),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(_HEADER)),
        ("epoch", pa.int64()),
        # The decision: VALID, LOADED, QUARANTINED (with a reason), DUPLICATE (of an earlier source and id), TOMBSTONE.
        ("decision", pa.string()),
        ("reason", pa.string()),
        # event_time < W(epoch) - L; null unless valid.
        ("late", pa.bool_()),
        # The epoch in which a released record had been quarantined; null for a record's first landing.
        ("released_from", pa.int64()),
        ("event_id", pa.string()),
        ("source", pa.string()),
        ("type", pa.string()),
        ("subject", pa.string()),
        ("contract_version", pa.int32()),
        # `time` as the device sent it; event_time is the corrected one, which everything else uses.
        ("device_time", _TIME),
        ("senttime", _TIME),
        ("receivedtime", _TIME),
        ("event_time", _TIME),
    ]
)
EVENT_DATE: Final = "event_date"
RECORD: Final = ("topic", "partition", "offset", "append_time", "key", "value", "headers")
"""The columns of a record as the log has it."""
HEADERS_DDL: Final = "array<struct<key: string, value: binary>>"
ADDED: Final = {"headers": HEADERS_DDL}
"""Columns that older landing tables lack until landing is started again, as Spark DDL."""
INDEXED: Final = ("partition", "offset", "append_time", "epoch", "decision", "type", "event_time")
"""The columns with statistics in Delta's log. delta-rs parses the statistics of all files at each commit, and landing
commits once a second: with 5,000 files that takes 250 ms for Delta's first 32 leaves, 50 ms for these (ADR 0024)."""
PROPERTIES: Final = {"delta.dataSkippingStatsColumns": ",".join(INDEXED)}
_BUILD: Final = re.compile(r"(?:^|/)epoch(?:s-(\d+))?-(\d+)-[^/]*/")


def epoch_build(epoch: int) -> str:
    """The folder for the staged files of ``epoch``: unique for each try, so that no try reads the files of another."""
    return f"epoch-{epoch}-{uuid.uuid4().hex}"


def epochs_build(low: int, high: int) -> str:
    """The folder for the files that a compaction merges from the epochs ``low`` to ``high``."""
    return f"epochs-{low}-{high}-{uuid.uuid4().hex}"


def epochs_of_file(path: str) -> tuple[int, int] | None:
    """The first and last epoch that a data file may hold rows of, from its path; None if another writer wrote it."""
    found = _BUILD.search(path)
    return (int(found[1] or found[2]), int(found[2])) if found else None


def landing_schema(topic: Topic) -> pa.Schema:
    """FIXED, one nullable struct column per event type (named by ``Contract.column``) with the fields of all versions
    of its contract, and ``event_date``."""
    typed = [pa.field(topic.newest(t).column, arrow_type(topic.shape(t))) for t in topic.event_types]
    return pa.schema([*FIXED, *typed, pa.field(EVENT_DATE, pa.date32())])


def arrow_type(node: Mapping[str, Any]) -> pa.DataType:
    """The Arrow type of a node of a contract's schema."""
    match node["type"], node.get("format"):
        case "object", _ if is_map(node):
            return pa.map_(pa.string(), arrow_type(node["additionalProperties"]))
        case "object", _:
            return pa.struct([(name, arrow_type(child)) for name, child in node.get("properties", {}).items()])
        case "array", _:
            return pa.list_(arrow_type(node["items"]))
        case _, "decimal":
            return pa.decimal128(node["precision"], node["scale"])
        case "string", "date-time":
            return _TIME
        case "string", "date":
            return pa.date32()
        case "string", _:
            return pa.binary() if is_bytes(node) else pa.string()
        case "integer", _:
            return pa.int64()
        case "number", _:
            return pa.float64()
        case _:
            return pa.bool_()


def spark_ddl(node: Mapping[str, Any]) -> str:
    """The same type as Spark DDL."""
    return _ddl(node, _scalar_ddl, _scalar_ddl)


def parsed_ddl(node: Mapping[str, Any]) -> str:
    """What ``from_json`` makes of it. Times and dates stay texts: Spark would accept "2013" as a time. So do bytes.
    Decimals stay variants: as a text or a decimal, Spark rounds a number (``0.1000000000000000055`` becomes 0.1). In
    maps and arrays of objects texts are variants, too: Spark turns ``12`` into "12", and no path leads to the value
    that it was."""
    return _ddl(node, _parsed_scalar_ddl, _parsed_nested_ddl)


_Scalar = Callable[[Mapping[str, Any]], str]


def _ddl(node: Mapping[str, Any], scalar: _Scalar, nested: _Scalar) -> str:
    inner = nested if is_nested(node) else scalar
    if is_map(node):
        return f"map<string, {_ddl(node['additionalProperties'], inner, nested)}>"
    if node["type"] == "object":
        fields = (f"`{name}`: {_ddl(child, inner, nested)}" for name, child in node.get("properties", {}).items())
        return f"struct<{', '.join(fields)}>"
    return f"array<{_ddl(node['items'], inner, nested)}>" if node["type"] == "array" else scalar(node)


def _scalar_ddl(node: Mapping[str, Any]) -> str:
    match node["type"], node.get("format"):
        case _, "decimal":
            return type_name(node)
        case "string", "date-time":
            return "timestamp"
        case "string", "date":
            return "date"
        case "string", _ if is_bytes(node):
            return "binary"
        case scalar, _:
            return {"string": "string", "integer": "bigint", "number": "double", "boolean": "boolean"}[scalar]


def _parsed_scalar_ddl(node: Mapping[str, Any]) -> str:
    if node.get("format") == "decimal":
        return "variant"
    return "string" if node["type"] == "string" else _scalar_ddl(node)


def _parsed_nested_ddl(node: Mapping[str, Any]) -> str:
    return "variant" if node["type"] == "string" else _parsed_scalar_ddl(node)
