"""The log: Kafka topics as they are declared, where they begin and end, and the producer that writes to them."""

from anabranch.ingest.kafka.admin import (
    Drift,
    begin_offsets,
    create_missing,
    drift,
    end_offsets,
    ensure_topics,
    readable_ends,
)
from anabranch.ingest.kafka.producer import Producer, Receipt

__all__ = [
    "Drift",
    "Producer",
    "Receipt",
    "begin_offsets",
    "create_missing",
    "drift",
    "end_offsets",
    "ensure_topics",
    "readable_ends",
]
