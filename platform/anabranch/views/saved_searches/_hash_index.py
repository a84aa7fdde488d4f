"""A hash index over boxes: boxes with the same shape are found by a key made of the fields that they fix to one value.

A shape is up to three fields that its boxes fix to one value and, if those alone select too many boxes, one field that
they restrict to a range, divided into cells. An event has one key per shape; only the boxes under that key are
candidates.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from anabranch.views.saved_searches._history import TIME

if TYPE_CHECKING:
    from anabranch.views.saved_searches._value_encoding import Codes

Interval = tuple[int, int]
Bounds = Mapping[str, Interval]
"""A box in codes: the first and last code by field."""

MAX_POINTS: Final = 3
MAX_SHAPES: Final = 64
"""Every shape costs one lookup per event. Boxes of further shapes are indexed by their most selective field alone."""
CELLS: Final = 32
FINE_ENOUGH: Final = 256
"""Keys with at least this many possible values aren't divided further by a range."""
_LARGEST_KEY: Final = 2**62


@dataclass(frozen=True, slots=True)
class Shape:
    """``keys`` are sorted; the boxes under ``keys[i]`` are ``entries[starts[i]:starts[i + 1]]``. ``rest`` names the
    other fields that a candidate must be compared by, those that restrict the most boxes first."""

    points: tuple[str, ...]
    cells: str
    keys: Codes
    starts: Codes
    entries: Codes
    rest: tuple[str, ...]


class Layout:
    """Computes keys from codes, in the same way for boxes and for events."""

    def __init__(self, bounds: Sequence[Bounds], sizes: Mapping[str, int]) -> None:
        self._sizes = sizes
        points: dict[str, set[int]] = defaultdict(set)
        edges: dict[str, list[int]] = defaultdict(list)
        for box in bounds:
            for field, (first, last) in box.items():
                if first == last:
                    points[field].add(first)
                else:
                    edges[field] += [first, last + 1]
        self._distinct = {field: len(found) for field, found in points.items()}
        self.edges = {field: _quantiles(found) for field, found in edges.items()}

    def shape(self, box: Bounds) -> tuple[tuple[str, ...], str]:
        """The shape that indexes this box: the fields of its points, and the field of its cells ("": none)."""
        fixed = [field for field, (first, last) in box.items() if first == last]
        chosen: list[str] = []
        largest, among = CELLS + 1, 1
        for field in sorted(fixed, key=lambda field: (-self._distinct[field], field))[:MAX_POINTS]:
            if largest * self._sizes[field] < _LARGEST_KEY:
                chosen.append(field)
                largest, among = largest * self._sizes[field], among * self._distinct[field]
        if among >= FINE_ENOUGH:
            return tuple(sorted(chosen)), ""
        ranges = (
            (self._share(field, box[field]), field) for field in box if field not in fixed and self._selects(field, box)
        )
        share, cells = min(ranges, default=(1.0, ""))
        return tuple(sorted(chosen)), cells if share < 0.8 else ""

    def narrower(self, shape: tuple[tuple[str, ...], str]) -> tuple[tuple[str, ...], str]:
        """The shape reduced to its most selective field."""
        points, cells = shape
        return ((max(points, key=lambda field: (self._distinct[field], field)),), "") if points else ((), cells)

    def keys_of(self, box: Bounds, shape: tuple[tuple[str, ...], str]) -> Iterator[int]:
        points, cells = shape
        key = 0
        for field in points:
            key = key * self._sizes[field] + box[field][0] + 1
        if not cells:
            yield key
        else:
            first, last = self._covered(cells, box[cells])
            yield from range(key * (CELLS + 1) + first, key * (CELLS + 1) + last + 1)

    def keys(self, codes: Mapping[str, Codes], shape: tuple[tuple[str, ...], str], events: int) -> Codes:
        """The key of each event."""
        import numpy as np

        points, cells = shape
        key = np.zeros(events, dtype="int64")
        for field in points:
            key = key * self._sizes[field] + codes[field] + 1
        if cells:
            key = key * (CELLS + 1) + np.searchsorted(self.edges[cells], codes[cells], "right")
        return key

    def _selects(self, field: str, box: Bounds) -> bool:
        """Whether a range can exclude events. The time range of a version that is still active excludes hardly any: new
        events are later."""
        return field != TIME or box[TIME][1] < self._sizes[TIME] - 2

    def _covered(self, field: str, interval: Interval) -> Interval:
        import numpy as np

        first, last = np.searchsorted(self.edges[field], interval, "right")
        return int(first), int(last)

    def _share(self, field: str, interval: Interval) -> float:
        first, last = self._covered(field, interval)
        return (last - first + 1) / (len(self.edges[field]) + 1)


def _quantiles(edges: Sequence[int]) -> Codes:
    """At most CELLS of the edges, with about equally many others between each two of them."""
    import numpy as np

    distinct = np.unique(np.array(edges, dtype="int64"))
    places = np.linspace(0, len(distinct) - 1, num=min(CELLS, len(distinct))).astype("int64")
    return np.unique(distinct[places])


def shapes(bounds: Sequence[Bounds], layout: Layout) -> list[Shape]:
    """The index over all boxes. A box's number is its position in ``bounds``."""
    wanted = [layout.shape(box) for box in bounds]
    frequent = {shape for shape, _ in Counter(wanted).most_common(MAX_SHAPES)}
    members: dict[tuple[tuple[str, ...], str], list[int]] = defaultdict(list)
    for number, shape in enumerate(wanted):
        members[shape if shape in frequent else layout.narrower(shape)].append(number)
    return [_shape(shape, numbers, bounds, layout) for shape, numbers in members.items()]


def _shape(
    shape: tuple[tuple[str, ...], str], numbers: Sequence[int], bounds: Sequence[Bounds], layout: Layout
) -> Shape:
    import numpy as np

    pairs = np.array([(key, n) for n in numbers for key in layout.keys_of(bounds[n], shape)], dtype="int64")
    pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
    keys, starts = np.unique(pairs[:, 0], return_index=True)
    rest = Counter(field for n in numbers for field in bounds[n] if field not in shape[0])
    ordered = tuple(field for field, _ in sorted(rest.items(), key=lambda item: (-item[1], item[0])))
    return Shape(*shape, keys, np.append(starts, len(pairs)), pairs[:, 1], ordered)


def pairs(shape: Shape, keys: Codes, limit: int) -> Iterator[tuple[Codes, Codes]]:
    """Yields the (event, box) pairs of all candidates, about ``limit`` at a time."""
    import numpy as np

    places = np.minimum(np.searchsorted(shape.keys, keys), len(shape.keys) - 1)
    events = np.flatnonzero(shape.keys[places] == keys)
    begins = shape.starts[places[events]]
    counts = shape.starts[places[events] + 1] - begins
    ends: Any = np.cumsum(counts)
    first = 0
    while first < len(events):
        done = ends[first] - counts[first]
        last = max(first + 1, int(np.searchsorted(ends, done + limit, "right")))
        some = counts[first:last]
        offsets = np.arange(some.sum()) - np.repeat(np.cumsum(some) - some, some)
        yield np.repeat(events[first:last], some), shape.entries[np.repeat(begins[first:last], some) + offsets]
        first = last
