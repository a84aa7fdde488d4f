"""Landing: reads a Kafka topic and writes every record once to a Delta table, with all that is decided about it.

In: the records of a topic. Out: a landing table, in which one commit is one epoch. The order of a micro-batch:

1. ``service`` runs the topics of a process, ``stream`` starts a query (``checkpoint``, ``kafka_source``: from which
   offset; ``state``: the table), ``_stream_watch`` and ``status`` report on it;
2. the package ``decoding`` parses the records and says which are valid;
3. ``writer`` stages the rows (``_weight``: of many in Spark), ``duplicates`` (``id_index``, ``id_hashes``) finds
   copies, ``empty_offsets`` proves that skipped offsets hold no record, and names the lost ones, ``loaded_files`` says
   what came from files; ``epochs`` adds the epoch's number and lateness, and commits it;
4. ``log_trimming`` and ``epoch_pacing`` keep the log short and leave cores to Airflow's runs.

Of two processes that land one topic the one that started last writes: ``stream`` takes a fence (``lake.streams``), and
``writer`` checks it before each commit. Releases and loads have none: they lose against a commit that came between.

For readers the package ``table`` describes the landed rows; for people ``audit`` proves them and releases quarantine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = [
    "checkpoint",
    "duplicates",
    "empty_offsets",
    "epoch_pacing",
    "epochs",
    "id_hashes",
    "id_index",
    "kafka_source",
    "loaded_files",
    "log_trimming",
    "service",
    "state",
    "status",
    "stream",
    "writer",
]
