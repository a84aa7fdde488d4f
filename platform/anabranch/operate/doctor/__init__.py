"""Checks a platform's invariants: what is wrong, where, and the command that fixes it (ADR 0019).

In: a `Context` (`_context`): settings, declarations, views, each table at one version, and the broker's offsets if it
answers. Out: a `Report` of `Finding`s (`_findings`). Reads only: writes nothing and takes no lock.

`_run_checks` runs all checks, and repeats those with findings, because the platform may be running. Of every table:
`_data_files`, `_checksums`, `_commits`. Of landing: `_landing` (offsets, events), `_epochs`, `_landing_decisions`
(late, released), `_landing_consistency` (checkpoint, id index, broker). Of views: `_view_rows`, `_publications`,
`_missing_days`, `_routes`, `_running_work`, `_dates`. Leftovers: `_builds`, `_replays`, `_processes`. With Spark, on
request: `_recompute` (rows by the view's function) and `_typed_columns` (landing decoded again).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if TYPE_CHECKING:
    from anabranch.operate.doctor._context import Context
    from anabranch.operate.doctor._findings import Check, Finding
    from anabranch.operate.doctor._recompute import recompute_checks
    from anabranch.operate.doctor._run_checks import CHECKS, examine, log_of
    from anabranch.operate.doctor._typed_columns import decode_check
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "_context": ("Context",),
            "_findings": ("Check", "Finding"),
            "_recompute": ("recompute_checks",),
            "_run_checks": ("CHECKS", "examine", "log_of"),
            "_typed_columns": ("decode_check",),
        },
    )

__all__ = ["CHECKS", "Check", "Context", "Finding", "decode_check", "examine", "log_of", "recompute_checks"]
