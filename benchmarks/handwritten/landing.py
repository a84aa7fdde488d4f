"""Kafka to Delta: parse the events into typed columns, drop duplicates with Spark's own operator, append."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_FLIGHT = {
    "flight_date": "date",
    "carrier": "string",
    "flight": "bigint",
    "tailnum": "string",
    "origin": "string",
    "dest": "string",
}
TYPES = {
    "flight.scheduled": {
        **_FLIGHT,
        "scheduled_departure": "timestamp",
        "scheduled_arrival": "timestamp",
        "distance": "bigint",
    },
    "flight.departed": {
        **_FLIGHT,
        "scheduled_departure": "timestamp",
        "actual_departure": "timestamp",
        "dep_delay": "bigint",
    },
    "flight.arrived": {
        **_FLIGHT,
        "scheduled_arrival": "timestamp",
        "actual_arrival": "timestamp",
        "arr_delay": "bigint",
        "air_time": "bigint",
    },
    "flight.cancelled": {**_FLIGHT, "scheduled_departure": "timestamp"},
}
_ENVELOPE = (
    "id string, source string, type string, subject string, "
    "time timestamp, senttime timestamp, receivedtime timestamp, dataschema string"
)


def parsed(records: DataFrame) -> DataFrame:
    """One column per field of the envelope, one struct per event type, and the day of the event time."""
    fields = {name: kind for fields in TYPES.values() for name, kind in fields.items()}
    data = ", ".join(f"{name}: {kind}" for name, kind in fields.items())
    event = F.col("event")
    shift = F.unix_micros(event.receivedtime) - F.unix_micros(event.senttime)
    corrected = F.timestamp_micros(F.unix_micros(event.time) + shift)
    return (
        records.withColumn("event", F.from_json(F.col("value").cast("string"), f"{_ENVELOPE}, data struct<{data}>"))
        .select(
            *("topic", "partition", "offset", F.col("timestamp").alias("append_time"), "key", "value"),
            event.id.alias("event_id"),
            *(event[name].alias(name) for name in ("source", "type", "subject")),
            F.element_at(F.split(event.dataschema, ":"), -1).cast("int").alias("contract_version"),
            event.time.alias("device_time"),
            *(event[name].alias(name) for name in ("senttime", "receivedtime")),
            F.when(event.senttime.isNull(), event.time).otherwise(corrected).alias("event_time"),
            *(_typed(name) for name in TYPES),
        )
        .withColumn("event_date", F.to_date("event_time"))
    )


def _typed(event_type: str) -> Column:
    data = F.struct(*(F.col(f"event.data.{name}") for name in TYPES[event_type]))
    return F.when(F.col("event.type") == event_type, data).alias(event_type.replace(".", "_"))


def start(
    spark: SparkSession, brokers: str, target: str, checkpoint: Path, most_offsets: int, *, unique: bool
) -> StreamingQuery:
    """Append everything that the topic holds now to ``target``, at most ``most_offsets`` records a micro-batch."""
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", brokers)
        .option("subscribe", "flights")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", most_offsets)
        .load()
    )
    events = parsed(records)
    if unique:
        events = events.withWatermark("append_time", "7 days").dropDuplicatesWithinWatermark(["source", "event_id"])
    return (
        events.writeStream.format("delta")
        .outputMode("append")
        .partitionBy("event_date")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start(target)
    )
