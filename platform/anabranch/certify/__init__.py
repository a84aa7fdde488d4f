"""Certify: prove that the speed half and the batch half of a view are equal at the same position of the log.

In: a view, its speed table, and a staged batch build that readers don't see yet. Out: one certificate per partition, a
verdict that says which partitions may be published, and Data Docs.

``reconciliation`` runs the steps in this order: ``comparison_inputs`` reads both sides; ``certify_partitions`` compares
them (with ``row_hashes``), and ``certificates`` stores the result; ``late_changes`` counts the rows that late events
changed; ``_check_inputs``, ``_checks`` and ``_run_checks`` run the data checks; ``differences`` and ``_source_events``
explain unequal rows; ``verdict`` is written last.
``rendering`` prints results, ``data_docs`` (with ``_expectations`` and ``_static_pages``) shows them as HTML.
``compare_versions`` (with ``_version_rows`` and ``breaking_changes``) compares two versions of one view, for a
migration.

A day that differs stops nothing here: ``verdict`` refuses it, the task *publish* leaves it out and fails, and readers
keep what they had.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = [
    "breaking_changes",
    "certificates",
    "certify_partitions",
    "compare_versions",
    "comparison_inputs",
    "data_docs",
    "differences",
    "late_changes",
    "reconciliation",
    "rendering",
    "row_hashes",
    "verdict",
]
