"""Offsets of the log without a record in landing: proven to hold none, or lost before they were landed.

Transaction markers, aborted records and what compaction has removed hold none: a second client reads past each of them,
and they are recorded with their epoch (ADR 0032). A lost one is given up by a person (``audit/accepted_losses``): the
epoch that accepts the loss names it, with the reason, and each commit after it repeats the ranges of all of them,
because old commits are deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from anabranch.ingest.kafka.record_offsets import Reread
from anabranch.lake import Commit, CommitMetadata

Ranges = Mapping[int, Sequence[tuple[int, int]]]
"""By partition, ascending: the first offset, and the offset after the last."""
RangeReader = Callable[[Mapping[int, tuple[int, int]]], Mapping[int, Reread]]
"""Reads partitions, each from an offset until another one: see ``ingest.kafka.record_offsets``."""
HOLES: Final = "holes"
"""Key in an epoch's metadata: its offsets without a record as [first, last], by partition."""
COUNTS: Final = "hole_counts"
"""Key in an epoch's metadata: their number in all epochs up to it, by partition. It stays when old commits are
deleted."""
BEGIN: Final = "begin"
"""Key in an epoch's metadata: the offset that landing began with, by partition. The first record may come later."""
LOST: Final = "lost"
"""Key in an epoch's metadata: the losses that were accepted with it, each with partition, from, to and why."""
LOSSES: Final = "losses"
"""Key in an epoch's metadata: all that were accepted so far, as [partition, first offset, offset after the last]."""
Range = tuple[int, int, int]


def empty_ranges(rows: pa.Table, begin: Mapping[int, int], end: Mapping[int, int]) -> Ranges:
    """Offsets of [begin, end) that are not among ``rows`` (columns partition, offset)."""
    partitions, offsets = rows["partition"].to_numpy(), rows["offset"].to_numpy()
    found = {}
    for partition, until in sorted(end.items()):
        first = begin.get(partition, 0)
        here = np.unique(offsets[partitions == partition])
        edges = np.concatenate(([first - 1], here[(here >= first) & (here < until)], [max(until, first)]))
        gaps = np.flatnonzero(np.diff(edges) > 1)
        if len(gaps):
            found[partition] = [(int(edges[at]) + 1, int(edges[at + 1])) for at in gaps]
    return found


def unproven(empty: Ranges, read: RangeReader) -> Ranges:
    """The ranges in which a second client finds a record, or which it can't read past."""
    found = read({p: (ranges[0][0], ranges[-1][1]) for p, ranges in empty.items()}) if empty else {}
    left = {}
    for partition, ranges in empty.items():
        again = found[partition]
        held = np.array(again.offsets, np.int64)
        doubtful = [
            (first, until)
            for first, until in ranges
            if again.reached < until or np.searchsorted(held, first) != np.searchsorted(held, until)
        ]
        if doubtful:
            left[partition] = doubtful
    return left


def count_offsets(ranges: Ranges) -> dict[int, int]:
    """The number of offsets, by partition."""
    return {partition: sum(until - first for first, until in each) for partition, each in ranges.items()}


def ranges_note(ranges: Ranges) -> dict[str, Any]:
    """The entry for an epoch's metadata; empty if there are no ranges."""
    text = {str(p): [[first, until - 1] for first, until in each] for p, each in sorted(ranges.items())}
    return {HOLES: text} if text else {}


def recorded_ranges(note: CommitMetadata) -> Iterator[tuple[int, int, int]]:
    """The ranges recorded with an epoch: partition, first offset, and the offset after the last."""
    for partition, ranges in note.extra.get(HOLES, {}).items():
        yield from ((int(partition), first, last + 1) for first, last in ranges)


def all_recorded(committed: Sequence[Commit]) -> dict[int, list[tuple[int, int]]]:
    """The ranges recorded with all these epochs, ascending; adjacent ranges are merged."""
    found: dict[int, list[tuple[int, int]]] = {}
    for partition, first, until in sorted(hole for each in committed for hole in recorded_ranges(each.note)):
        ranges = found.setdefault(partition, [])
        if ranges and ranges[-1][1] == first:
            first = ranges.pop()[0]
        ranges.append((first, until))
    return found


def by_partition(said: Mapping[str, Any], name: str) -> dict[int, int]:
    """COUNTS or BEGIN of an epoch's metadata, by partition."""
    return {int(partition): int(number) for partition, number in said.get(name, {}).items()}


def add_counts(counts: Mapping[int, int], more: Mapping[int, int]) -> dict[int, int]:
    return {p: counts.get(p, 0) + more.get(p, 0) for p in sorted({*counts, *more})}


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
