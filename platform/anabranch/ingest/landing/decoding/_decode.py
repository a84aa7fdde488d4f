"""Decodes the bytes of records into envelope, typed data and the decision whether the record is valid.

Uses native Spark expressions only, once a record is JSON (``_documents``). Each value is parsed once, with one schema
that holds the fields of every event type of the topic; only records that look suspicious after that are checked again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.contracts import CloudEvents, Topic
from anabranch.contracts.fields.field_types import Node, ShapesClash, merge, same_shape
from anabranch.contracts.model.records import Mapped
from anabranch.core.errors import BadDefinition
from anabranch.ingest.landing.decoding._append_times import with_held_times
from anabranch.ingest.landing.decoding._avro_columns import with_avro_columns
from anabranch.ingest.landing.decoding._binary_mode import BINARY, ENVELOPE, event_of_headers, is_binary, is_untimed
from anabranch.ingest.landing.decoding._documents import END, with_json, wrapped
from anabranch.ingest.landing.decoding._epochs import needs_text
from anabranch.ingest.landing.decoding._fast_columns import READ, has_ruled_formats
from anabranch.ingest.landing.decoding._mapping import mapped_event, mapped_time, text_of
from anabranch.ingest.landing.decoding._message_columns import with_message_columns
from anabranch.ingest.landing.decoding._renames import as_declared, as_sent, renamed_fields
from anabranch.ingest.landing.decoding._typed_values import time_of, typed
from anabranch.ingest.landing.decoding._validity import (
    CONTRACT,
    CORRUPT,
    DATA,
    SENT,
    SENT_TEXTS,
    is_valid,
    is_valid_typed,
    matching_contract,
)
from anabranch.ingest.landing.table.schema import (
    EVENT_DATE,
    HEADERS_DDL,
    QUARANTINED,
    RECORD,
    TOMBSTONE,
    VALID,
    parsed_ddl,
)
from anabranch.ingest.landing.table.schema_projection import fields_as_sent

_SOUND = "_sound"
TIMES = ("time", "senttime", "receivedtime")
# Spark's defaults accept more than JSON: 'single quotes', NaN, and "Infinity" as a number.
_STRICT = {"columnNameOfCorruptRecord": CORRUPT, "allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}


def raw_frame(spark: SparkSession, topic: Topic, records: Sequence[Mapping[str, Any]]) -> DataFrame:
    """Records in the form of the Kafka source; ``append_time`` of each is in microseconds, ``headers`` may be left
    out."""
    rows = [
        (topic.name, r["partition"], r["offset"], r["append_time"], r["key"], r["value"], r.get("headers"))
        for r in records
    ]
    columns = "topic string, partition int, offset bigint, append_us bigint, key binary, value binary, headers "
    timed = spark.createDataFrame(rows, columns + HEADERS_DDL).withColumn(
        "append_time", F.timestamp_micros("append_us")
    )
    return timed.select(*RECORD)


def decode(records: DataFrame, topic: Topic) -> DataFrame:
    """The landing columns of ``records`` (the columns RECORD), except epoch and late.

    A quarantined record keeps its coordinates and bytes, and its type and subject if they could be read. Its reason is
    empty: ``_quarantine_reasons.with_reasons`` fills it in outside of Spark.
    """
    return _landed(_parsed(with_held_times(records), topic).withColumn(_SOUND, is_valid(topic)), topic)


def decode_fast(records: DataFrame, topic: Topic) -> DataFrame | None:
    """The same for most records, without a JSON text in between: a record that isn't valid here may be so by
    ``decode``, whose answer holds. None if the topic's records need ``decode``."""
    if has_ruled_formats(topic) or needs_text(topic):
        return None
    fields, records = _fields(topic), with_held_times(records)
    read = with_avro_columns(records, topic, fields)
    if read is None:
        read = with_message_columns(records, topic, fields)
    if read is None:
        return None
    read = _timed(read.withColumn("_event", mapped_event(topic)), topic)
    return _landed(read.withColumn(_SOUND, F.col(READ) & is_valid_typed(topic)), topic)


def _landed(judged: DataFrame, topic: Topic) -> DataFrame:
    valid, deleted = F.col(_SOUND), _is_tombstone(topic)
    decision = F.when(valid, F.lit(VALID)).when(deleted, F.lit(TOMBSTONE)).otherwise(F.lit(QUARANTINED))
    when_valid = [
        ("event_id", F.col("_event.id")),
        ("source", F.col("_event.source")),
        ("contract_version", F.get(F.array(*(F.lit(c.version) for c in topic.contracts)), CONTRACT)),
        ("device_time", F.col("_time")),
        ("senttime", F.col("_senttime")),
        ("receivedtime", F.col("_receivedtime")),
        ("event_time", F.col("_event_time")),
    ]
    fields = _fields(topic)
    typed = [
        F.when(valid & (F.col("_event.type") == t), _data(topic, t, fields)).alias(topic.newest(t).column)
        for t in topic.event_types
    ]
    return judged.select(
        *(F.col(c) for c in RECORD),
        decision.alias("decision"),
        F.when(~valid & ~deleted, F.lit("")).alias("reason"),
        F.col("_event.type").alias("type"),
        F.col("_event.subject").alias("subject"),
        *(F.when(valid, column).alias(name) for name, column in when_valid),
        *typed,
        F.when(valid, F.to_date(F.col("_event_time"))).alias(EVENT_DATE),
    )


def _is_tombstone(topic: Topic) -> Column:
    """Whether a record deletes its key: it has no value, and no headers that make it an event; never null. A row of a
    file has a value."""
    return F.col("value").isNull() & F.col("key").isNotNull() & ~is_binary(topic.records)


def _parsed(records: DataFrame, topic: Topic) -> DataFrame:
    """``records`` with the columns that ``_validity`` uses: _text, _event, _data, the times, and the contract's
    index. Each step copies what the next ones use of a row: so the steps are few, and a text is in the row once."""
    fields = _fields(topic)
    texts = with_json(records, topic.records).withColumn(BINARY, is_binary(topic.records))
    texts = texts.withColumn("_text", text_of(topic.records))
    parsed = texts.withColumn("_parsed", F.from_json(wrapped(F.col("_text")), _schema(topic, fields), _STRICT)).select(
        "*",
        F.col("_parsed.event").alias("_event"),
        F.struct(*(F.col(f"_parsed.event.{name}") for name in SENT_TEXTS)).alias(SENT),
        F.col(f"_parsed.{END}"),
        F.col(f"_parsed.{CORRUPT}").isNotNull().alias(CORRUPT),
    )
    if renames := renamed_fields(topic):
        data = as_declared(F.col("_event.data"), {"type": "object", "properties": fields}, renames)
        parsed = parsed.withColumn("_event", F.col("_event").withField("data", data))
    data = F.struct(*(typed(F.col("_event.data")[name], node).alias(name) for name, node in fields.items()))
    whole = mapped_event(topic) if isinstance(topic.records, Mapped) else event_of_headers(topic.records)
    return _timed(parsed.withColumns({"_event": whole, DATA: data}), topic)


def _timed(parsed: DataFrame, topic: Topic) -> DataFrame:
    """Adds the times and the contract's index."""
    times = (time_of(F.col(f"_event.{name}")).alias(f"_{name}") for name in TIMES)
    read = parsed.select("*", *times, matching_contract(topic).alias(CONTRACT))
    if isinstance(topic.records, Mapped):
        read = read.withColumn("_time", mapped_time(topic))
    elif topic.records.time is not None:
        time = F.when(is_untimed(topic.records), F.col("append_time")).otherwise(F.col("_time"))
        read = read.withColumn("_time", time)
    return read.withColumn("_event_time", _event_time(topic))


def _fields(topic: Topic) -> dict[str, Node]:
    """Every field of the topic's contracts, by name. Raises BadDefinition FIELD_TYPES_CLASH if two types differ."""
    fields: dict[str, Node] = {}
    for contract in topic.contracts:
        for name, node in contract.fields.items():
            try:
                known = fields.setdefault(name, node)
                fields[name] = known if same_shape(known, node) else merge((known, node), name)
            except ShapesClash as clash:
                raise BadDefinition(
                    "FIELD_TYPES_CLASH",
                    f"topic {topic.name}: field {clash.path!r} is {clash.one} in one contract and {clash.other} in "
                    f"{contract.uri}",
                    next_step="give one of them another name, or put them on two topics",
                ) from None
    return fields


def _schema(topic: Topic, fields: Mapping[str, Node]) -> str:
    sent = as_sent({"type": "object", "properties": fields}, renamed_fields(topic))["properties"]
    data = ", ".join(f"`{name}`: {parsed_ddl(node)}" for name, node in sent.items())
    envelope = ", ".join(f"`{name}`: string" for name in ENVELOPE)  # times, too: Spark would take a number for one
    return f"event struct<{envelope}, data: struct<{data}>>, {END} boolean, {CORRUPT} string"


def _data(topic: Topic, event_type: str, fields: Mapping[str, Node]) -> Column:
    """The struct of an event type: the fields that the event's contract version names; all others are null."""
    versions = [(place, c.schema) for place, c in enumerate(topic.contracts) if c.name == event_type]
    parsed = {"type": "object", "properties": fields}
    return F.struct(*fields_as_sent(F.col(DATA), parsed, topic.shape(event_type), versions, F.col(CONTRACT)))


def _event_time(topic: Topic) -> Column:
    """``time + (receivedtime - senttime)`` if senttime is given; without receivedtime the append time replaces it. Not
    for a row of a file: its append time is the time of the load, and says nothing about the device's clock. Nor for an
    event that has no time of the device."""
    received = F.coalesce(F.col("_receivedtime"), F.col("append_time"))
    shift = F.unix_micros(received) - F.unix_micros(F.col("_senttime"))
    corrected = F.timestamp_micros(F.unix_micros(F.col("_time")) + shift)
    loaded = F.col("_receivedtime").isNull() & (F.col("partition") < 0)
    as_it_is = F.col("_senttime").isNull() | loaded
    if isinstance(topic.records, CloudEvents) and topic.records.time is not None:
        as_it_is |= is_untimed(topic.records)
    return F.when(as_it_is, F.col("_time")).otherwise(corrected)
