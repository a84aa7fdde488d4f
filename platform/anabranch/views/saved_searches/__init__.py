"""Saved searches: match each event against thousands of stored conditions without evaluating every one.

It works like a percolator: the searches are indexed, and each event looks up the few that can match it.

In: a DataFrame of events and the history of searches (name, expression, time). Out: one row per event and matching
search. In the order in which they act: ``_operator`` is what authors call; ``_history`` says when each version of a
search is active; ``_grammar`` parses its expression; ``_intervals`` turns each condition into intervals of one field;
``_conjunctions`` combines them into boxes; ``_value_encoding`` encodes values as integers; ``_hash_index`` finds the
boxes that can contain an event; ``_index`` ties these together and matches batches of events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if TYPE_CHECKING:
    from anabranch.views.saved_searches._operator import fields_of, matches, refusal, refused
else:
    __getattr__, __dir__ = lazy_exports(__name__, {"_operator": ("fields_of", "matches", "refusal", "refused")})

__all__ = ["fields_of", "matches", "refusal", "refused"]
