"""Kafka: the topics of the platform, their offsets, and the producer that writes to them.

In: declared topics and events. Out: topics on the broker, records in them, and offsets per partition. The modules:

1. ``auth`` gives librdkafka the login and Kafka's Java client a reference to the password; ``client`` holds the client
   settings that all connections share, and translates Kafka's errors;
2. ``admin`` creates declared topics, reports drift, and returns topic ids and the begin and end of each partition;
3. ``producer`` validates an event, sends it idempotently, and returns a receipt with its offset; ``event_files`` reads
   events to send from a file, ``lines`` sends records as they are, ``batches`` knows of each of many whether it is in
   the log;
4. ``send`` is ``anabranch.send``: single records, with an envelope or without; ``look`` shows records of the log;
5. ``record_offsets`` reads a range again, independently of Spark, to find out which offsets hold a record
   (``_assigned_consumer``, which ``look`` uses, too).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if TYPE_CHECKING:
    from anabranch.ingest.kafka.producer import Producer, Receipt
else:
    __getattr__, __dir__ = lazy_exports(__name__, {"producer": ("Producer", "Receipt")})

__all__ = [
    "Producer",
    "Receipt",
    "admin",
    "auth",
    "batches",
    "client",
    "event_files",
    "lines",
    "look",
    "producer",
    "record_offsets",
    "send",
]
