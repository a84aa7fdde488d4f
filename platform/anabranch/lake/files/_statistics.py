"""Delta's statistics of one data file: row count, and for each column the bounds and the number of nulls.

Every engine uses them to skip files that can't hold a matching row. A file has statistics for all of its indexed
columns, or its row count only: delta-rs' ``to_pyarrow_dataset`` takes a missing bound among others for "no row of this
file matches". A file gets the row count only if it holds a value for which no JSON bound is right in every engine: NaN
(the greatest value for Spark and DataFusion, ignored by Arrow), an infinity, a time outside of the years 1 to 9999.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

INDEXED_LEAVES: Final = 32
"""Delta's ``delta.dataSkippingNumIndexedCols``: readers use the first 32 leaves of a table's schema; more would only
make the log larger. Arrays and maps aren't counted: no reader expects statistics for them."""
_PREFIX: Final = 32
"""Characters of a text in a bound, as Delta's own writers cut it."""
_GREATEST: Final = "\U0010ffff"
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_UNITS: Final = {"s": 1_000_000, "ms": 1_000, "us": 1}
Columns = Callable[[Sequence[str]], pa.Table]
"""Returns some columns of the file, by name."""
_Fragments = dict[str, Any]
"""JSON texts by column, nested like the structs."""


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A column of a Parquet file outside of arrays and maps. ``index``: its number in the file."""

    path: tuple[str, ...]
    type: pa.DataType
    index: int


def statistics(footer: pq.FileMetaData, columns: Columns, indexed: Collection[str] | None = None) -> str:
    """The statistics of the file with this ``footer``, as JSON: for the first 32 leaves, or for the columns ``indexed``
    of a table whose property ``delta.dataSkippingStatsColumns`` names exactly these.

    Uses the footer, so it needs no pass over the rows. It reads ``columns`` only for what a footer lacks: NaN (only
    Spark's footers reveal it), and the bounds of texts too long for a footer.
    """
    count = f'{{"numRecords":{footer.num_rows}}}'
    if not footer.num_rows:
        return count
    lows, highs, nulls = _Fragments(), _Fragments(), _Fragments()
    try:
        for leaf in _indexed(footer.schema.to_arrow_schema(), indexed):
            missing, bounds = _of_leaf(leaf, footer, columns)
            _put(nulls, leaf.path, str(missing))
            if bounds is not None:
                _put(lows, leaf.path, bounds[0])
                _put(highs, leaf.path, bounds[1])
    except (ValueError, OverflowError):  # no bound is right for one of the values
        return count
    bounds_text = f'"minValues":{_json(lows)},"maxValues":{_json(highs)},"nullCount":{_json(nulls)}'
    return f"{count[:-1]},{bounds_text}}}"


def footer_bounds(footer: pq.FileMetaData, column: str) -> tuple[Any, Any, int] | None:
    """The least and the greatest value of a column outside of structs, and its number of nulls; None if the footer
    doesn't say, or there is no value or no such column."""
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    if not groups:
        return None
    paths = [groups[0].column(number).path_in_schema for number in range(groups[0].num_columns)]
    if column not in paths:
        return None
    found = [group.column(paths.index(column)).statistics for group in groups]
    if not all(each is not None and each.has_min_max and each.has_null_count for each in found):
        return None
    return min(each.min for each in found), max(each.max for each in found), sum(each.null_count for each in found)


def footer_columns(schema: pa.Schema, tables: Iterable[pa.Table]) -> bool | list[str]:
    """The columns that get statistics in the footer of a file of these ``tables`` (``write_statistics`` of pyarrow):
    all except those with a NaN, for which Arrow would write bounds that make engines skip the NaN."""
    floats = [leaf for leaf in _leaves(schema) if pa.types.is_floating(leaf.type)]
    if not floats:
        return True
    found = {leaf.path for table in tables for leaf in floats if _has_nan(_column(table.select, leaf))}
    return not found or [".".join(leaf.path) for leaf in _leaves(schema) if leaf.path not in found]


def float_columns(schema: pa.Schema) -> list[str]:
    """The columns that can hold a NaN: those that ``footer_columns`` reads."""
    return list(dict.fromkeys(leaf.path[0] for leaf in _leaves(schema) if pa.types.is_floating(leaf.type)))


def _indexed(schema: pa.Schema, names: Collection[str] | None) -> list[_Leaf]:
    found = [leaf for leaf in _leaves(schema) if _has_bounds(leaf.type) or _is_binary(leaf.type)]
    return found[:INDEXED_LEAVES] if names is None else [leaf for leaf in found if leaf.path[0] in names]


def _leaves(schema: pa.Schema) -> Iterator[_Leaf]:
    index = 0
    for field in schema:
        for path, kind, width in _walk((field.name,), field.type):
            if width == 1 and not pa.types.is_nested(kind):
                yield _Leaf(path, kind, index)
            index += width


def _walk(path: tuple[str, ...], kind: pa.DataType) -> Iterator[tuple[tuple[str, ...], pa.DataType, int]]:
    """The leaves of a column in file order, each with the number of its Parquet columns."""
    if pa.types.is_struct(kind):
        for child in kind:
            yield from _walk((*path, child.name), child.type)
    else:
        yield path, kind, _width(kind)


def _width(kind: pa.DataType) -> int:
    if pa.types.is_nested(kind):
        return sum(_width(kind.field(number).type) for number in range(kind.num_fields))
    return 1


def _of_leaf(leaf: _Leaf, footer: pq.FileMetaData, columns: Columns) -> tuple[int, tuple[str, str] | None]:
    """The number of nulls, and the bounds as JSON; None if there is no value, or the type has no bounds. Raises
    ValueError or OverflowError if no bound is right."""
    groups = [footer.row_group(number).column(leaf.index).statistics for number in range(footer.num_row_groups)]
    if not all(group is not None and group.has_null_count for group in groups):
        if not _is_text(leaf.type):
            raise ValueError("the footer doesn't count the nulls")
        return _of_texts(leaf, columns)
    nulls = sum(group.null_count for group in groups)
    if nulls == footer.num_rows or not _has_bounds(leaf.type):
        return nulls, None
    bounded = [group for group in groups if group.has_min_max]
    if any(not group.has_min_max and group.num_values for group in groups):
        if not _is_text(leaf.type):
            raise ValueError("the footer has no bounds")
        return _of_texts(leaf, columns)
    raws = [_raw(leaf.type, raw) for group in bounded for raw in (group.min_raw, group.max_raw)]
    if pa.types.is_floating(leaf.type) and not footer.created_by.startswith("parquet-mr"):
        raws += [math.nan] if _has_nan(_column(columns, leaf)) else []
    return nulls, _bounds(leaf.type, raws)


def _of_texts(leaf: _Leaf, columns: Columns) -> tuple[int, tuple[str, str] | None]:
    """From the texts themselves: footers omit the bounds of long texts, and Spark's omit the number of nulls too."""
    column = _column(columns, leaf).cast(pa.large_binary())
    found = pc.min_max(column).as_py()
    return column.null_count, None if found["min"] is None else _bounds(leaf.type, list(found.values()))


def _raw(kind: pa.DataType, raw: Any) -> Any:
    is_bytes = pa.types.is_decimal(kind) and isinstance(raw, bytes)
    return int.from_bytes(raw, "big", signed=True) if is_bytes else raw


def _bounds(kind: pa.DataType, raws: Sequence[Any]) -> tuple[str, str]:
    if pa.types.is_floating(kind) and not all(map(math.isfinite, raws)):
        raise ValueError("JSON has no such number")
    return _bound(kind, min(raws), upper=False), _bound(kind, max(raws), upper=True)


def _column(columns: Columns, leaf: _Leaf) -> pa.ChunkedArray:
    column = columns([leaf.path[0]])[leaf.path[0]]
    return pc.struct_field(column, list(leaf.path[1:])) if len(leaf.path) > 1 else column


def _has_nan(column: pa.ChunkedArray) -> bool:
    return bool(pc.any(pc.is_nan(column)).as_py())


def _has_bounds(kind: pa.DataType) -> bool:
    """Includes booleans: Delta's Spark writer omits their bounds, but delta-rs misses rows without them."""
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    is_time = pa.types.is_date(kind) or pa.types.is_timestamp(kind)
    return is_number or is_time or _is_text(kind) or pa.types.is_boolean(kind)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _bound(kind: pa.DataType, raw: Any, *, upper: bool) -> str:
    """A raw value of a footer as a bound in JSON. Bounds of numbers and dates are exact, because Spark answers MIN and
    MAX of them from the statistics alone."""
    if _is_text(kind):
        return _text(_text_bound(raw.decode(), upper=upper))
    if pa.types.is_timestamp(kind):
        return json.dumps(_time_bound(kind, raw, upper=upper))
    if pa.types.is_date(kind):
        return json.dumps(date.fromordinal(_EPOCH_DAY + raw).isoformat())
    if pa.types.is_decimal(kind):
        return _decimal(raw, kind.scale)
    return json.dumps(raw)


def _text_bound(text: str, *, upper: bool) -> str:
    """At most 32 characters of ``text``, as Delta cuts it. Texts are ordered by code points, which is the order of
    UTF-8 bytes that all engines use. An upper bound ends with the greatest character, so that it is greater than what
    was cut off; if the rest begins with that character, the text is cut after it."""
    if len(text) <= _PREFIX or not upper:
        return text[:_PREFIX]
    end = next((n for n in range(_PREFIX, len(text)) if text[n] != _GREATEST), None)
    return text if end is None else text[:end] + _GREATEST


def _time_bound(kind: pa.DataType, raw: int, *, upper: bool) -> str:
    """A time in milliseconds, as Delta's protocol requires, rounded outwards: some readers add a millisecond to an
    upper bound because other writers truncate microseconds, some don't."""
    if kind.unit == "ns":
        raise ValueError("no table of Delta's holds nanoseconds")
    micros = raw * _UNITS[kind.unit]
    moment = datetime(1970, 1, 1) + timedelta(milliseconds=-(-micros // 1000) if upper else micros // 1000)  # noqa: DTZ001
    return moment.isoformat(timespec="milliseconds") + ("Z" if kind.tz else "")


def _decimal(unscaled: int, scale: int) -> str:
    """All digits: as a float, a bound of 38 digits would be on the wrong side of the value."""
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    whole, fraction = digits[: len(digits) - scale], digits[len(digits) - scale :]
    return f"{'-' if unscaled < 0 else ''}{whole}{'.' + fraction if fraction else ''}"


def _put(fragments: _Fragments, path: Sequence[str], text: str) -> None:
    for name in path[:-1]:
        fragments = fragments.setdefault(name, {})
    fragments[path[-1]] = text


def _json(fragments: _Fragments) -> str:
    parts = (f"{_text(k)}:{_json(v) if isinstance(v, dict) else v}" for k, v in fragments.items())
    return f"{{{','.join(parts)}}}"


def _text(text: str) -> str:
    """The text unescaped: delta-rs decodes an escaped character beyond 16 bits as another, smaller one."""
    return json.dumps(text, ensure_ascii=False)
