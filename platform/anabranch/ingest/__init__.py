"""Ingest: how events get into Kafka (``kafka``) and from there into Delta tables (``landing``).

In: events from producers, as records of declared topics. Out: one landing table per topic, the input of all views.

1. ``kafka`` creates the declared topics and has the producer, which validates events before it sends them;
2. ``landing`` reads each topic as a stream, decides once about each record (valid, quarantined, duplicate, late) and
   commits it exactly once, together with the offsets that it has read.
"""
