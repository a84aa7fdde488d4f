"""Compute the two halves of each view from landed events.

``speed``: one Structured Streaming query per view keeps the speed half up to date with on-time events. ``batch``:
rebuilds partitions from all events up to a cut, and publishes those that were certified.

Both call the same function of the view (see ``anabranch.views``) and commit through ``anabranch.lake``. The commit
metadata of both names the definition's fingerprint and the cut that the rows cover.
"""
