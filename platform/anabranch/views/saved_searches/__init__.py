"""Saved searches: match each event against thousands of stored conditions without evaluating every one.

It works like a percolator: the searches are indexed, and each event looks up the few that can match it.

In: a DataFrame of events and the history of searches (name, expression, time). Out: one row per event and matching
search. In the order in which they act: ``operator`` is what authors call; ``history`` says when each version of a
search is active; ``grammar`` parses its expression; ``intervals`` turns each condition into intervals of one field;
``conjunctions`` combines them into boxes; ``value_encoding`` encodes values as integers; ``hash_index`` finds the
boxes that can contain an event; ``index`` ties these together and matches batches of events.
"""

from anabranch.views.saved_searches.operator import fields_of, matches, refusal, refused

__all__ = ["fields_of", "matches", "refusal", "refused"]
