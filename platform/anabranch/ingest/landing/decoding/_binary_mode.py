"""CloudEvents in binary mode: a record's headers hold the envelope (``ce_id``, ``ce_type``, ...), its value the data.

A record is in this mode if it has a header ``ce_...``, unless its ``content-type`` says that it holds a whole event.
Text of headers is UTF-8, without escapes (CloudEvents, Kafka protocol binding 1.0.2).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from anabranch.contracts import CloudEvents
from anabranch.contracts.model.event_headers import CONTENT_TYPE, JSON_TYPE, PREFIX, WHOLE
from anabranch.contracts.model.records import Records

ENVELOPE: Final = (
    "specversion", "id", "source", "type", "subject", "time", "senttime", "receivedtime", "dataschema",
)  # fmt: skip
"""The attributes of an event that landing reads, all as texts."""
BINARY: Final = "_binary"


def is_binary(records: Records) -> Column:
    """Whether a record is in binary mode; never null."""
    if not isinstance(records, CloudEvents):
        return F.lit(False)
    attribute = F.exists("headers", lambda header: header["key"].startswith(PREFIX))
    whole = F.coalesce(F.lower(header_text(CONTENT_TYPE)).startswith(WHOLE), F.lit(False))
    return F.coalesce(F.col("headers").isNotNull() & attribute & ~whole, F.lit(False))


def event_of_headers(records: CloudEvents) -> Column:
    """``_event``, with the envelope from the headers where the record is in binary mode, and the type by our name."""
    parsed = F.col("_event")
    found = {name: _either(attribute_text(name), parsed[name]) for name in ENVELOPE}
    found["type"] = by_our_name(found["type"], records.types)
    return F.struct(*(value.alias(name) for name, value in found.items()), parsed["data"])


def by_our_name(event_type: Column, names: Mapping[str, str]) -> Column:
    """An event type as it is called here; ``names``: by what is sent, where that differs."""
    renamed = [F.when(event_type == sent, F.lit(name)) for sent, name in names.items()]
    return F.coalesce(*renamed, event_type) if renamed else event_type


def is_untimed(records: Records) -> Column:
    """Whether an event without a time has that of its record; never null. Not a row of a file: that has none."""
    if not isinstance(records, CloudEvents) or records.time is None:
        return F.lit(False)
    return F.col("_event.time").isNull() & (F.col("partition") >= 0)


def received_at(records: Records) -> Column:
    """When a record was received. One whose time is that of its record: not before that."""
    received = F.coalesce(F.col("_receivedtime"), F.col("append_time"))
    if not isinstance(records, CloudEvents) or records.time is None:
        return received
    return F.when(is_untimed(records), F.greatest(received, F.col("append_time"))).otherwise(received)


def has_json_data() -> Column:
    """Whether a record in binary mode says that its data is JSON, or doesn't say what it is; never null."""
    return F.coalesce(header_text(CONTENT_TYPE).rlike(JSON_TYPE), F.lit(True))


def attribute_text(name: str) -> Column:
    return header_text(f"{PREFIX}{name}")


def header_text(name: str) -> Column:
    """The text of the last header of this name; null if there is none, or if it is no UTF-8 text."""
    # By position: looking at each header by a function takes most of landing's time.
    keys, values = (F.reverse(F.col(f"headers.{part}")) for part in ("key", "value"))
    last = F.array_position(keys, name).cast("int")
    return F.try_validate_utf8(F.get(values, last - 1).cast("string"))


def _either(binary: Column, structured: Column) -> Column:
    return F.when(F.col(BINARY), binary).otherwise(structured)
