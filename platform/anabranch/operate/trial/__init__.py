"""Tries a view over landed events before it is declared: as a batch and as a stream, into a temporary folder.

In: a view or its file, and days. Out: a ``Trial``: the view's rows, what both paths took, and whether they are equal.

Order: `view_file` reads the view from a file; `chosen_days` reads the days; `temporary_home` makes a home whose landing
tables are mirrors of the platform's at one cut; `run_trial` runs the stream, the rebuild and the comparison of the
platform there, and deletes it; `result` holds what came of it. `landed_events` gives landed events to a notebook.
"""

from anabranch.operate.trial.landed_events import landed_events
from anabranch.operate.trial.result import Trial
from anabranch.operate.trial.run_trial import try_view

__all__ = ["Trial", "landed_events", "try_view"]
