"""The speed path: keep one Delta table per view up to date with on-time events, one commit per micro-batch.

In: landing tables (whole epochs), a registered view, its checkpoint. Out: commits to the view's speed table whose
metadata names the micro-batch and the cut; ``status`` writes what each stream does for ``anabranch status``.

In the order in which they act: ``service`` runs all views of the process (``_definition_watcher`` and ``_stream_watch``
tell it when to restart); ``view_stream`` starts one stream, after ``checkpoint_handover``; per micro-batch ``_sink``
(or ``_partition_sink`` for refresh="partitions") reads its end and its cut (``_cut_resolver``), checks
``_dropped_rows``, and commits through ``table`` (``_large_merge`` for many rows). ``_failing_event`` explains a
failure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = ["checkpoint_handover", "service", "status", "table", "view_stream"]
