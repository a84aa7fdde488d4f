"""Offsets that the log lost before they were landed, and that a person gave up (``audit/accepted_losses``).

The epoch that accepts a loss names it, with the reason. Each commit after it repeats the ranges of all of them, because
old commits are deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from anabranch.lake import Commit

LOST: Final = "lost"
"""Key in an epoch's metadata: the losses that were accepted with it, each with partition, from, to and why."""
LOSSES: Final = "losses"
"""Key in an epoch's metadata: all that were accepted so far, as [partition, first offset, offset after the last]."""
Range = tuple[int, int, int]


def carried_losses(extra: Mapping[str, Any]) -> tuple[Range, ...]:
    """All losses that a commit's metadata names."""
    ranges = ((int(partition), int(first), int(until)) for partition, first, until in extra.get(LOSSES, ()))
    return tuple(dict.fromkeys((*ranges, *map(range_of, extra.get(LOST, ())))))


def losses_note(losses: Iterable[Range]) -> dict[str, Any]:
    """The entry that each landing commit repeats; empty without a loss."""
    found = [list(each) for each in losses]
    return {LOSSES: found} if found else {}


def all_losses(kept: Sequence[Commit]) -> list[Mapping[str, Any]]:
    """Every accepted loss, by the commits that are kept (newest first); the reason is only in the commit that accepted
    it."""
    found: list[Mapping[str, Any]] = [loss for committed in kept for loss in committed.note.extra.get(LOST, ())]
    known = {range_of(loss) for loss in found}
    older = [each for each in carried_losses(kept[0].note.extra) if each not in known] if kept else []
    return [*found, *({"partition": p, "from": first, "to": until} for p, first, until in older)]


def range_of(loss: Mapping[str, Any]) -> Range:
    return int(loss["partition"]), int(loss["from"]), int(loss["to"])
