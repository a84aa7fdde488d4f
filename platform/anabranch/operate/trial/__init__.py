"""Tries a view over landed events before it is declared: as a batch and as a stream, into a temporary folder.

In: a view or its file, and days. Out: a ``Trial``: the view's rows, what both paths took, and whether they are equal.

Order: `_view_file` reads the view from a file; `_chosen_days` reads the days; `_temporary_home` makes a home whose
landing tables are mirrors of the platform's at one cut; `_run_trial` runs the stream, the rebuild and the comparison of
the platform there, and deletes it; `_result` holds what came of it. `_landed_events` gives landed events to a notebook.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if TYPE_CHECKING:
    from anabranch.operate.trial._chosen_days import read_days
    from anabranch.operate.trial._landed_events import landed_events
    from anabranch.operate.trial._result import Trial
    from anabranch.operate.trial._run_trial import try_view
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "_chosen_days": ("read_days",),
            "_landed_events": ("landed_events",),
            "_result": ("Trial",),
            "_run_trial": ("try_view",),
        },
    )

__all__ = ["Trial", "landed_events", "read_days", "try_view"]
