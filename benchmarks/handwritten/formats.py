"""Kafka to Delta for records of each format: decode them, drop duplicates with Spark's operator, append."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_FIELDS = "orderId string, placedAt timestamp, total decimal(12,2), lines bigint, city string"


def _header(name: str) -> str:
    return f"CAST(element_at(filter(headers, header -> header.key = 'ce_{name}'), -1).value AS STRING)"


OF_FIELDS: Final[Mapping[str, str]] = {"event_id": "data.orderId", "event_time": "data.placedAt"}
"""Where the envelope of a record is, as SQL: here in fields of the record."""
OF_HEADERS: Final[Mapping[str, str]] = {
    "event_id": _header("id"),
    "source": _header("source"),
    "type": _header("type"),
    "event_time": f"CAST({_header('time')} AS TIMESTAMP)",
}
"""In the headers of CloudEvents' binary mode; an event is known by source and id."""
OF_RECORD: Final[Mapping[str, str]] = {"event_id": "CAST(key AS STRING)", "event_time": "append_time"}
"""In its key and its timestamp: of a text."""


def of_json() -> Column:
    """The fields of a record in plain JSON."""
    found = F.from_json(F.col("value").cast("string"), _FIELDS.replace("decimal(12,2)", "string"))
    return found.withField("total", found["total"].cast("decimal(12,2)"))


def of_avro(schema: dict[str, Any]) -> Column:
    """The same of a record in Avro, behind the five bytes of the wire format, by the engine's own decoder."""
    return from_avro(F.substring("value", 6, 1 << 30), json.dumps(schema))


def of_bare_avro(schema: dict[str, Any]) -> Column:
    """The same without these bytes."""
    return from_avro("value", json.dumps(schema))


def of_text() -> Column:
    """A record as its text."""
    return F.struct(F.col("value").cast("string").alias("text"))


def of_protobuf(description: str) -> Column:
    """The same of the message that a FileDescriptorProto (in base64) describes, behind the six bytes of the wire
    format, by Google's library: the engine has no decoder."""

    @F.arrow_udf("orderId string, millis bigint, cents bigint, lines bigint, city string")  # type: ignore[attr-defined,untyped-decorator]
    def decode(values: pa.Array) -> pa.Array:
        import base64

        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

        pool = descriptor_pool.DescriptorPool()
        pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
        pool.Add(descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(description)))
        kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("Order"))
        names: dict[str, list[Any]] = {name: [] for name in ("orderId", "millis", "cents", "lines", "city")}
        for value in values.to_pylist():
            message = kind.FromString(value[6:])
            names["orderId"].append(message.orderId)
            names["millis"].append(message.placedAt.ToMilliseconds())
            names["cents"].append(message.cents)
            names["lines"].append(message.lines)
            names["city"].append(message.city)
        return pa.StructArray.from_arrays([pa.array(column) for column in names.values()], names=list(names))

    found: Column = decode(F.col("value"))
    return found.withField("placedAt", F.timestamp_millis(found["millis"])).dropFields("millis")


def start(
    spark: SparkSession,
    brokers: str,
    topic: str,
    target: str,
    checkpoint: Path,
    most_offsets: int,
    decoded: Column,
    envelope: Mapping[str, str] = OF_FIELDS,
) -> StreamingQuery:
    """Append everything that the topic holds now to ``target``, at most ``most_offsets`` records a micro-batch."""
    with_headers = envelope is OF_HEADERS
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", brokers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", most_offsets)
        .option("includeHeaders", with_headers)
        .load()
    )
    events = (
        records.withColumn("data", decoded)
        .withColumnRenamed("timestamp", "append_time")
        .select(
            *("topic", "partition", "offset", "append_time", "key", "value", *(["headers"] if with_headers else [])),
            *("data", *(F.expr(sql).alias(name) for name, sql in envelope.items())),
        )
        .withColumn("event_date", F.to_date("event_time"))
    )
    known_by = [name for name in ("source", "event_id") if name in envelope]
    unique = events.withWatermark("append_time", "7 days").dropDuplicatesWithinWatermark(known_by)
    return (
        unique.writeStream.format("delta")
        .outputMode("append")
        .partitionBy("event_date")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start(target)
    )
