"""Offsets without a record: found among rows, proven by another reader, counted in notes."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pytest
from anabranch.ingest.kafka.record_offsets import Reread
from anabranch.ingest.landing.empty_offsets import (
    RangeReader,
    all_recorded,
    count_offsets,
    empty_ranges,
    ranges_note,
    unproven,
)
from anabranch.lake import Commit, CommitMetadata
from anabranch.lake.cut import Cut

pytestmark = pytest.mark.unit


def rows(**partitions: list[int]) -> pa.Table:
    found = [(int(name[1:]), offset) for name, offsets in partitions.items() for offset in offsets]
    ints = [pa.array([row[n] for row in found], pa.int64()) for n in (0, 1)]
    return pa.table(ints, names=["partition", "offset"])


def log(held: Mapping[int, list[int]], readable: int = 100) -> RangeReader:
    """Another client: it gets these records, and can read up to ``readable``."""

    def read(spans: Mapping[int, tuple[int, int]]) -> dict[int, Reread]:
        return {partition: read_one(partition, *span) for partition, span in spans.items()}

    def read_one(partition: int, start: int, until: int) -> Reread:
        found = [offset for offset in held.get(partition, []) if start <= offset < readable]
        behind = [offset for offset in found if offset >= until]
        reached = behind[0] + 1 if behind else max(start, readable)
        return Reread(tuple(offset for offset in found if offset < until), reached)

    return read


def test_what_is_between_rows_before_the_first_and_behind_the_last_is_empty() -> None:
    landed = rows(p0=[3, 4, 8, 5], p1=[0, 1])
    found = empty_ranges(landed, {0: 2, 1: 0, 2: 7}, {0: 11, 1: 2, 2: 9, 3: 4})
    assert found == {0: [(2, 3), (6, 8), (9, 11)], 2: [(7, 9)], 3: [(0, 4)]}
    assert count_offsets(found) == {0: 5, 2: 2, 3: 4}
    assert empty_ranges(landed, {0: 3, 1: 0}, {0: 6, 1: 2}) == {}


def test_an_empty_range_is_proven_by_a_read_past_it() -> None:
    empty = {0: [(2, 4), (6, 8)], 1: [(0, 3)]}
    assert unproven(empty, log({0: [0, 1, 4, 5, 8]})) == {}
    assert unproven(empty, log({}, readable=8)) == {}


def test_a_record_in_it_or_an_end_before_it_proves_nothing() -> None:
    empty = {0: [(2, 4), (6, 8)], 1: [(0, 3)]}
    assert unproven(empty, log({0: [4, 5, 7, 9]})) == {0: [(6, 8)]}
    assert unproven(empty, log({0: [3], 1: [0]})) == {0: [(2, 4)], 1: [(0, 3)]}
    assert unproven(empty, log({}, readable=7)) == {0: [(6, 8)]}
    assert unproven(empty, log({}, readable=0)) == empty


def test_notes_name_the_holes_of_their_epochs() -> None:
    ranges = [{0: [(5, 6)], 1: [(0, 2)]}, {0: [(6, 9), (12, 13)]}]
    assert ranges_note({}) == {}
    assert ranges_note(ranges[1]) == {"holes": {"0": [[6, 8], [12, 12]]}}
    epochs = [CommitMetadata("landing/x", str(n), Cut({}), extra=ranges_note(each)) for n, each in enumerate(ranges)]
    found = all_recorded(
        [Commit(n, CommitMetadata.from_text(note.to_text()) or note, 0) for n, note in enumerate(epochs)]
    )
    assert found == {0: [(5, 9), (12, 13)], 1: [(0, 2)]}
