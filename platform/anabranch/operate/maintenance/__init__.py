"""Maintenance: compacts small files and deletes what is past its retention and no longer needed (ADR 0021).

In: the settings and a `Policy` (thresholds and retention). Out: a `Report` of `Action`s (`report`). With ``plan=True``
nothing is changed. Safe to repeat and to kill at any point.

`runner` takes the maintenance lock and visits every table: `compaction` merges small files (`file_merging` chooses and
writes them, `compaction_journal` records the work in progress), `log_retention` writes checkpoints and deletes old
commits, `vacuum` deletes old data files. `retention_holds` says which replay still needs them. Then `orphans` deletes
what runs left outside of the tables. `concurrent_files` lists folders that others write to meanwhile.
"""
