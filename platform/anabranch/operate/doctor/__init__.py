"""Checks a platform's invariants: what is wrong, where, and the command that fixes it (ADR 0019).

In: a `Context` (`context`): settings, declarations, views, each table at one version, and the broker's offsets if it
answers. Out: a `Report` of `Finding`s (`findings`). Reads only: writes nothing and takes no lock.

`run_checks` runs all checks, and repeats those with findings, because the platform may be running. Of every table:
`data_files`, `checksums`, `commits`. Of landing: `landing` (offsets, events), `epochs`, `landing_decisions` (late,
released), `landing_consistency` (checkpoint, id index, broker). Of views: `view_rows`, `publications`, `missing_days`,
`routes`, `running_work`, `dates`. Leftovers: `builds`, `replays`, `processes`. With Spark, on request: `recompute`
(rows by the view's function) and `typed_columns` (landing decoded again).
"""
