"""Certify: prove that the speed half and the batch half of a view are equal at the same position of the log.

In: a view, its speed table, and a staged batch build that readers don't see yet. Out: one certificate per partition, a
verdict that says which partitions may be published, and Data Docs.

``reconciliation`` runs the steps in this order: ``staged_build`` and ``comparison_inputs`` read both sides;
``certify_partitions`` compares them (with ``affected_partitions`` and ``row_hashes``), and ``certificates`` stores the
result; ``late_changes`` counts the rows that late events changed; ``check_inputs``, ``checks`` and ``run_checks`` run
the data checks; ``differences`` and ``source_events`` explain unequal rows; ``verdict`` is written last. ``rendering``
prints results, ``data_docs`` (with ``expectations`` and ``static_pages``) shows them as HTML. ``compare_versions``
(with ``version_rows`` and ``breaking_changes``) compares two versions of one view, for a migration.
"""
