"""Explains a number: from a served row to the events that contribute to it.

In: a view's name and the key of one row. Out: an `Explanation`, with the row, the half and the commit that it comes
from, the events behind it with their offsets, what each contributes, and what changed the row last.

Order: `_request` resolves the key (`_row_key`) and reads the row as it is served (`_served_row`); `_candidates` reads
the landed events that can be behind it; `_candidate_filters` guesses subsets from the row's cells; `_minimise` verifies
them with the view's own function (`_evaluator`, in a small Spark session from `_engine`) and removes the events that
have no part; `_contributions` computes what the row would be without each event; `_last_change` finds the commit that
changed it last. `_missing_row` says why a row doesn't exist. `_explain_row` runs these steps, `_explanation` holds the
result, `_rendering` prints it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if TYPE_CHECKING:
    from anabranch.operate.explain._explain_row import explain
    from anabranch.operate.explain._explanation import Comparison, Explanation, Part
    from anabranch.operate.explain._rendering import rendered
    from anabranch.operate.explain._row_key import key_parts
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "_explain_row": ("explain",),
            "_explanation": ("Comparison", "Explanation", "Part"),
            "_rendering": ("rendered",),
            "_row_key": ("key_parts",),
        },
    )

__all__ = ["Comparison", "Explanation", "Part", "explain", "key_parts", "rendered"]
