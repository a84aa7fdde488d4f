"""Kafka: the topics of the platform, their offsets, and the producer that writes to them.

In: declared topics and events. Out: topics on the broker, records in them, and offsets per partition. The modules:

1. ``auth`` gives librdkafka the login and Kafka's Java client a reference to the password; ``client`` holds the client
   settings that all connections share, and translates Kafka's errors;
2. ``admin`` creates declared topics, reports drift, and returns topic ids and the begin and end of each partition;
3. ``producer`` validates an event, sends it idempotently, and returns a receipt with its offset; ``event_files`` reads
   events to send from a file, ``lines`` sends records as they are;
4. ``send`` is ``anabranch.send``: single records, with an envelope or without; ``look`` shows records of the log;
5. ``record_offsets`` reads a range again, independently of Spark, to find out which offsets hold a record
   (``assigned_consumer``, which ``look`` uses, too).
"""

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
