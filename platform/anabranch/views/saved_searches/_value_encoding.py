"""Encode values as their rank among the values that searches name, so that every comparison is one of small integers.

The named values of a field are sorted. An event's value that equals the ``i``-th one gets the code ``2i + 1``; a value
between two of them gets the even code in between; null gets -1. Two values with the same code can't be told apart by
any search. The comparison is Python's, which is exact between integers, decimals and doubles.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from anabranch.views.saved_searches._intervals import HIGH, LOW, Cut, Kind, Span

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    Codes = np.ndarray[Any, np.dtype[Any]]


class Coder:
    """The codes of one field."""

    def __init__(self, kind: Kind, spans: Iterable[Span]) -> None:
        import numpy as np

        self._named: Sequence[Any] = sorted({cut[1] for span in spans for cut in span if len(cut) == 3})
        self._places = {value: 2 * place + 1 for place, value in enumerate(self._named)}
        self._integers = np.array(self._named, dtype="int64") if kind in ("date", "timestamp") else None
        self.size = 2 * len(self._named) + 2
        """Codes run from -1 to ``size - 2``."""

    def interval(self, span: Span) -> tuple[int, int]:
        """The first and the last code inside ``span``."""
        return self._first(span[0]), self._first(span[1]) - 1

    def _first(self, cut: Cut) -> int:
        """The smallest code after the cut."""
        if len(cut) == 3:
            return int(self._places[cut[1]] + cut[2])
        return -1 if cut < LOW else (self.size - 1 if cut == HIGH else 0)

    def codes(self, column: pa.Array) -> Codes:
        """The code of every value of an Arrow column."""
        import numpy as np
        import pyarrow as pa

        encoded = _comparable(column).dictionary_encode()
        indices = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False)
        if self._integers is not None:
            values = encoded.dictionary.cast(pa.int64()).to_numpy(zero_copy_only=False)
            places = np.searchsorted(self._integers, values, "left")
            equal = np.searchsorted(self._integers, values, "right") - places
            found = (2 * places + equal).astype("int64")
        else:
            found = np.array([self._code(value) for value in encoded.dictionary.to_pylist()], dtype="int64")
        codes: Codes = np.append(found, -1)[indices]
        return codes

    def _code(self, value: Any) -> int:
        if value != value:  # NaN: greater than any number, as in Spark
            return self.size - 2
        place = bisect_left(self._named, value)
        return 2 * place + int(place < len(self._named) and self._named[place] == value)


def _comparable(column: pa.Array) -> pa.Array:
    """Dates as days, timestamps as microseconds."""
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us", column.type.tz)).view(pa.int64())
    return column.view(pa.int32()) if pa.types.is_date32(column.type) else column
