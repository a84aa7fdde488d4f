"""The envelope of records that have none: built from the fields that a topic's mapping names, as Spark expressions.

Their JSON is read as the ``data`` of an event: ``{...}`` as ``{"data":{...}}``. So parsing, typing and validation are
the same as for records with an envelope.
"""

from __future__ import annotations

from functools import reduce
from operator import and_

from pyspark.sql import Column
from pyspark.sql import functions as F

from anabranch.contracts import Header, Record, TimeField, Topic
from anabranch.contracts.fields.field_types import shape
from anabranch.contracts.model.records import Mapped, Part, Records
from anabranch.ingest.landing.decoding._binary_mode import BINARY, attribute_text, by_our_name, header_text, is_binary
from anabranch.ingest.landing.decoding._documents import json_of, json_text
from anabranch.ingest.landing.decoding._epochs import time_since_1970
from anabranch.ingest.landing.decoding._renames import as_declared, as_sent, renamed_fields
from anabranch.ingest.landing.table.schema import parsed_ddl

_DATA = "_data"


def text_of(records: Records) -> Column:
    """The text of a record that is parsed as an event."""
    value = json_text(records)
    data = F.concat(F.lit('{"data":'), value, F.lit("}"))
    return data if isinstance(records, Mapped) else F.when(F.col(BINARY), data).otherwise(value)


def mapped_event(topic: Topic) -> Column:
    """The event of a record whose data was parsed as ``_event.data``. Its texts for times are null: see
    ``mapped_time``."""
    records = topic.records
    assert isinstance(records, Mapped)  # noqa: S101 - the caller has looked
    data, nothing = F.col("_event.data"), F.lit(None).cast("string")
    return F.struct(
        F.lit("1.0").alias("specversion"),
        _id(records, data).alias("id"),
        F.lit(records.source or topic.name).alias("source"),
        _type(topic, records, data).alias("type"),
        _subject(records, data).alias("subject"),
        *(nothing.alias(name) for name in ("time", "senttime", "receivedtime", "dataschema")),
        data.alias("data"),
    )


def mapped_time(topic: Topic) -> Column:
    """The event time of a record whose typed data is ``_data``; null if it can't be read."""
    assert isinstance(topic.records, Mapped)  # noqa: S101 - the caller has looked
    time = topic.records.time_field
    if time is None:
        return F.col("append_time")
    value = _at(F.col(_DATA), time.path)
    if time.unit:
        return time_since_1970(value, topic, time)
    return _from_text(value, time) if time.format else value


def identity(topic: Topic) -> dict[str, Column]:
    """Id and source of a record, as columns ``event_id`` and ``source``, straight from its bytes."""
    value = json_of(topic.records)
    if not isinstance(topic.records, Mapped):
        event, binary = F.from_json(value, "id string, source string"), is_binary(topic.records)
        texts = {name: F.when(binary, attribute_text(name)).otherwise(event[name]) for name in ("id", "source")}
        return {"event_id": texts["id"], "source": texts["source"]}
    renames, schema = renamed_fields(topic), topic.contracts[0].schema
    named = {path.partition(".")[0] for path in topic.records.id_fields}
    fields = {"type": "object", "properties": {name: shape(schema["properties"][name]) for name in sorted(named)}}
    data = (
        as_declared(F.from_json(value, parsed_ddl(as_sent(fields, renames))), fields, renames) if named else F.lit(None)
    )
    return {"event_id": _id(topic.records, data), "source": F.lit(topic.records.source or topic.name)}


def _id(records: Mapped, data: Column) -> Column:
    if records.id is Record.OFFSET:
        return F.concat_ws("-", "partition", "offset")
    parts = [_part(part, data) for part in records.id_parts]
    if len(parts) == 1:
        return parts[0]
    # As a JSON array: ("a", "b:c") and ("a:b", "c") are different ids.
    return F.when(reduce(and_, (part.isNotNull() for part in parts)), F.to_json(F.array(*parts)))


def _subject(records: Mapped, data: Column) -> Column:
    if records.subject is None:
        return F.lit(None).cast("string")
    return _part(records.subject, data)


def _type(topic: Topic, records: Mapped, data: Column) -> Column:
    if records.type is None:
        return F.lit(topic.event_types[0])
    return by_our_name(_part(records.type.path, data), records.type.names)


def _part(part: Part, data: Column) -> Column:
    if isinstance(part, Header):
        return header_text(part.name)
    return _key() if part is Record.KEY else _at(data, part).cast("string")


def _key() -> Column:
    key = F.col("key").cast("string")
    return F.when(F.is_valid_utf8(key), key)


def _at(value: Column, path: str) -> Column:
    return reduce(lambda column, name: column[name], path.split("."), value)


def _from_text(value: Column, time: TimeField) -> Column:
    found = F.try_to_timestamp(value, F.lit(time.format))
    return found if "XXX" in time.format or time.zone == "UTC" else F.to_utc_timestamp(found, time.zone)
