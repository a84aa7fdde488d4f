"""Index all searches together and match batches of events against them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from anabranch.core.errors import BadInput
from anabranch.views.saved_searches._conjunctions import AllOf, Box, Pattern, Tree, boxes, leaves, parse_search
from anabranch.views.saved_searches._hash_index import Bounds, Layout, Shape, pairs, shapes
from anabranch.views.saved_searches._history import TIME, ActiveVersion, Version, active_versions
from anabranch.views.saved_searches._intervals import Kind, Leaf, Span
from anabranch.views.saved_searches._value_encoding import Coder

if TYPE_CHECKING:
    import pyarrow as pa

    from anabranch.views.saved_searches._value_encoding import Codes

AT_ONCE: Final = 1_000_000
"""How many candidates are in memory at a time: about 50 MB."""


@dataclass(slots=True)
class MatchCost:
    """The cost of matching: the (event, box) pairs and the (event, whole search) pairs that were compared."""

    candidates: int = 0
    scanned: int = 0


@lru_cache(maxsize=2)
def cached_index(versions: tuple[Version, ...], fields: tuple[tuple[str, Kind], ...], lasts: int | None) -> Index:
    """The index over these versions. A worker caches it, because searches change far less often than events arrive."""
    return Index(versions, dict(fields), lasts)


class Index:
    """``fields``: those that searches may name. A version that is refused, or never active, isn't in the index."""

    def __init__(self, versions: Sequence[Version], fields: Mapping[str, Kind], lasts: int | None) -> None:
        import numpy as np

        self.versions: list[Version] = []
        found: list[tuple[int, Box]] = []
        self._scans: list[tuple[int, Tree]] = []
        for active in active_versions(versions, lasts):
            self._add(active, fields, found)
        spans = _spans_by_field([box for _, box in found], [tree for _, tree in self._scans])
        kinds = {**fields, TIME: "timestamp"}
        self._coders = {field: Coder(kinds[field], named) for field, named in spans.items()}
        bounds: list[Bounds] = [
            {field: self._coders[field].interval(span) for field, span in box.spans.items()} for _, box in found
        ]
        self._layout = Layout(bounds, {field: coder.size for field, coder in self._coders.items()})
        self._shapes = shapes(bounds, self._layout)
        self._owners = np.array([owner for owner, _ in found], dtype="int64")
        self._patterns = {number: box.patterns for number, (_, box) in enumerate(found) if box.patterns}
        self._bounds = {field: self._limits(field, bounds) for field in self._coders}

    def _add(self, active: ActiveVersion, fields: Mapping[str, Kind], found: list[tuple[int, Box]]) -> None:
        try:
            tree = parse_search(active.version.expression or "", fields)
        except BadInput:
            return
        number = len(self.versions)
        self.versions.append(active.version)
        parts = boxes(tree, Box({TIME: active.times}))
        if parts is None:
            self._scans.append((number, AllOf((Leaf(TIME, (active.times,)), tree))))
        else:
            found += [(number, box) for box in parts]

    def _limits(self, field: str, bounds: Sequence[Bounds]) -> tuple[Codes, Codes]:
        """The first and last code of each box; all codes where it doesn't restrict the field."""
        import numpy as np

        everything = (-1, self._coders[field].size)
        both = np.array([box.get(field, everything) for box in bounds], dtype="int64").reshape(-1, 2)
        return both[:, 0], both[:, 1]

    def match(self, batch: pa.RecordBatch, cost: MatchCost | None = None) -> Iterator[tuple[Codes, Codes]]:
        """Yields (row of the batch, index into ``versions``) of all matches, each once, in several arrays."""
        import numpy as np

        cost = cost or MatchCost()
        codes = {field: coder.codes(batch.column(field)) for field, coder in self._coders.items()}
        found = []
        for shape in self._shapes:
            keys = self._layout.keys(codes, (shape.points, shape.cells), batch.num_rows)
            for events, numbers in pairs(shape, keys, AT_ONCE):
                cost.candidates += len(events)
                found.append(self._matching(shape, events, numbers, codes, batch))
        if found:
            # A search with "or" can match through two of its boxes, so the pairs are made unique.
            total = max(1, len(self.versions))
            joined = np.unique(np.concatenate([events * total + owners for events, owners in found]))
            yield joined // total, joined % total
        for number, tree in self._scans:
            cost.scanned += batch.num_rows
            events = np.flatnonzero(self._scan(tree, codes, batch))
            yield events, np.full(len(events), number, dtype="int64")

    def _matching(
        self, shape: Shape, events: Codes, numbers: Codes, codes: Mapping[str, Codes], batch: pa.RecordBatch
    ) -> tuple[Codes, Codes]:
        for field in shape.rest:
            first, last = self._bounds[field]
            value = codes[field][events]
            inside = (value >= first[numbers]) & (value <= last[numbers])
            events, numbers = events[inside], numbers[inside]
        if self._patterns:
            inside = self._by_pattern(events, numbers, batch)
            events, numbers = events[inside], numbers[inside]
        return events, self._owners[numbers]

    def _by_pattern(self, events: Codes, numbers: Codes, batch: pa.RecordBatch) -> Codes:
        import numpy as np

        inside = np.ones(len(events), dtype=bool)
        for number in np.intersect1d(numbers, np.fromiter(self._patterns, dtype="int64")):
            where = np.flatnonzero(numbers == number)
            for pattern in self._patterns[int(number)]:
                inside[where] &= _like(batch, events[where], pattern)
        return inside

    def _scan(self, tree: Tree, codes: Mapping[str, Codes], batch: pa.RecordBatch) -> Codes:
        """A mask of the events for which the whole tree is true."""
        import numpy as np

        if isinstance(tree, Leaf):
            if not tree.spans:
                return np.zeros(batch.num_rows, dtype=bool)
            intervals = np.array([self._coders[tree.field].interval(span) for span in tree.spans], dtype="int64")
            value = codes[tree.field]
            place = np.searchsorted(intervals[:, 0], value, "right") - 1
            inside: Codes = (place >= 0) & (value <= intervals[place, 1])
            if tree.pattern:
                inside &= _like(batch, np.arange(batch.num_rows), (tree.field, tree.pattern, tree.negated))
            return inside
        combine = np.logical_and if isinstance(tree, AllOf) else np.logical_or
        return np.asarray(combine.reduce([self._scan(part, codes, batch) for part in tree.of]))


def _spans_by_field(found: Sequence[Box], trees: Sequence[Tree]) -> dict[str, set[Span]]:
    spans: dict[str, set[Span]] = {}
    for box in found:
        for field, span in box.spans.items():
            spans.setdefault(field, set()).add(span)
    for tree in trees:
        for leaf in leaves(tree):
            spans.setdefault(leaf.field, set()).update(leaf.spans)
    return spans


def _like(batch: pa.RecordBatch, events: Codes, pattern: Pattern) -> Codes:
    """A mask of the rows that satisfy the pattern; null never does. It runs in linear time (RE2)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    field, text, negated = pattern
    values = batch.column(field).take(pa.array(events))
    found = pc.match_like(values, text)
    found = (pc.invert(found) if negated else found).fill_null(False)
    mask: Codes = found.to_numpy(zero_copy_only=False)
    return mask
