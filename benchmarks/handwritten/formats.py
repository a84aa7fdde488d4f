"""Kafka to Delta for records without an envelope: decode each format, drop duplicates with Spark's operator, append."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_FIELDS = "orderId string, placedAt timestamp, total decimal(12,2), lines bigint, city string"


def of_json() -> Column:
    """The fields of a record in plain JSON."""
    found = F.from_json(F.col("value").cast("string"), _FIELDS.replace("decimal(12,2)", "string"))
    return found.withField("total", found["total"].cast("decimal(12,2)"))


def of_avro(schema: dict[str, Any]) -> Column:
    """The same of a record in Avro, behind the five bytes of the wire format, by the engine's own decoder."""
    return from_avro(F.substring("value", 6, 1 << 30), json.dumps(schema))


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
    spark: SparkSession, brokers: str, topic: str, target: str, checkpoint: Path, most_offsets: int, decoded: Column
) -> StreamingQuery:
    """Append everything that the topic holds now to ``target``, at most ``most_offsets`` records a micro-batch."""
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", brokers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", most_offsets)
        .load()
    )
    events = records.withColumn("data", decoded).select(
        *("topic", "partition", "offset", F.col("timestamp").alias("append_time"), "key", "value", "data"),
        F.col("data.orderId").alias("event_id"),
        F.col("data.placedAt").alias("event_time"),
        F.to_date("data.placedAt").alias("event_date"),
    )
    unique = events.withWatermark("append_time", "7 days").dropDuplicatesWithinWatermark(["event_id"])
    return (
        unique.writeStream.format("delta")
        .outputMode("append")
        .partitionBy("event_date")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start(target)
    )
