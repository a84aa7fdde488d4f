"""The speed path: keep one Delta table per view up to date with on-time events, one commit per micro-batch.

In: landing tables (whole epochs), a registered view, its checkpoint. Out: commits to the view's speed table whose
metadata names the micro-batch and the cut; ``status`` writes what each stream does for ``anabranch status``.

In the order in which they act: ``service`` runs all views of the process (``definition_watcher`` and ``stream_watch``
tell it when to restart); ``view_stream`` starts one stream, after ``checkpoint_handover``; per micro-batch ``sink`` (or
``partition_sink`` for refresh="partitions") reads its end (``batch_commits``) and its cut (``cut_resolver``), checks
``dropped_rows``, and commits through ``table`` (``large_merge`` for many rows). ``failing_event`` explains a failure.
"""
