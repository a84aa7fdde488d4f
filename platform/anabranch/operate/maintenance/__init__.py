"""Maintenance: compacts small files and deletes what is past its retention and no longer needed (ADR 0021).

In: the settings and a `Policy` (thresholds and retention). Out: a `Report` of `Action`s (`_report`). With ``plan=True``
nothing is changed. Safe to repeat and to kill at any point.

`_runner` takes the maintenance lock and visits every table: `_compaction` merges small files (`_file_merging` chooses
and writes them, `_compaction_journal` records the work in progress), `_log_retention` writes checkpoints and deletes
old commits, `_vacuum` deletes old data files. `_retention_holds` says which replay still needs them. Then
`_unpublished_builds` deletes staged files of versions without a table, and `_orphans` what runs left outside of the
tables. `_concurrent_files` measures folders that others write to meanwhile. Ages and other limits are in `Policy`
(`_report`); those of tables are properties of the table (`lake.commits`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if TYPE_CHECKING:
    from anabranch.operate.maintenance._compaction_journal import JOURNAL, in_progress
    from anabranch.operate.maintenance._concurrent_files import touched
    from anabranch.operate.maintenance._runner import maintain
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "_compaction_journal": ("JOURNAL", "in_progress"),
            "_concurrent_files": ("touched",),
            "_runner": ("maintain",),
        },
    )

__all__ = ["JOURNAL", "in_progress", "maintain", "touched"]
