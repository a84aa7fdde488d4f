"""Saved searches: thousands of stored conditions held against each passing event, without trying each one.

As a percolator does it: the searches are indexed, and an event finds the few that can match it.
"""

from anabranch.views.saved_searches.operator import fields_of, matches, refusal, refused

__all__ = ["fields_of", "matches", "refusal", "refused"]
