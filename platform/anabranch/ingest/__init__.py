"""Ingest: how events get into Kafka (``kafka``) and from there into Delta tables (``landing``).

In: events from producers, as records of declared topics. Out: one landing table per topic, the input of all views.

1. ``kafka`` creates the declared topics and has the producer, which validates events before it sends them; ``http``,
   ``queues`` (RabbitMQ) and ``statsd`` are ways in for clients that don't speak Kafka;
2. ``schema_registry`` keeps the schemas that records name; ``landing`` reads each topic as a stream, decides once about
   each record (valid, quarantined, duplicate, tombstone, late) and commits it exactly once, together with the offsets
   that it has read; ``files`` loads history into the same tables.
"""
