"""Explains a number: from a served row to the events that contribute to it.

In: a view's name and the key of one row. Out: an `Explanation`, with the row, the half and the commit that it comes
from, the events behind it with their offsets, what each contributes, and what changed the row last.

Order: `request` resolves the key (`row_key`) and reads the row as it is served (`served_row`); `candidates` reads the
landed events that can be behind it; `candidate_filters` guesses subsets from the row's cells; `minimise` verifies them
with the view's own function (`evaluator`, in a small Spark session from `engine`) and removes the events that have no
part; `contributions` computes what the row would be without each event; `last_change` finds the commit that changed it
last. `missing_row` says why a row doesn't exist. `explain_row` runs these steps, `explanation` holds the result,
`rendering` prints it.
"""

from anabranch.operate.explain.explain_row import explain
from anabranch.operate.explain.explanation import Comparison, Explanation, Part

__all__ = ["Comparison", "Explanation", "Part", "explain"]
