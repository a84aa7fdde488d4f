"""Landing: reads a Kafka topic and writes every record once to a Delta table, with all that is decided about it.

In: the records of a topic. Out: a landing table, in which one commit is one epoch. The order of a micro-batch:

1. ``service`` runs the topics of a process, ``stream`` starts a query (``resume``, ``kafka_source``: from which offset;
   ``state``, ``schema_growth``: the table), ``stream_watch`` and ``status`` report on it;
2. ``decode`` parses the records (``mapping``, ``renames``, ``decimals``: parts of them), ``validity`` decides which are
   valid, ``quarantine_reasons`` says why others aren't;
3. ``writer`` adds epoch and lateness, ``duplicates`` (``id_index``, ``id_hashes``, ``hash_segments``) finds copies,
   ``empty_offsets`` proves that skipped offsets hold no record; then it commits (``staged_epoch`` for large batches);
4. ``log_trimming`` and ``epoch_pacing`` keep the log short and leave cores to Airflow's runs.

For people: ``verify`` and ``report`` (the proof), ``quarantine`` (release), ``accepted_losses``, ``contract_usage``.
For views: ``schema``, ``schema_projection``, ``event_counts``, ``late_events``, ``watermark``, ``sql``.
"""
