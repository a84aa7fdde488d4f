"""hypothesis strategies for the values that a contract allows, with edge cases more often than in real data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st

from anabranch.contracts.fields.decimals import MAX_PRECISION, limit
from anabranch.contracts.fields.field_types import fits_double, is_map
from anabranch.contracts.fields.null_values import may_be_null, nullable_paths
from anabranch.contracts.fields.patterns import python_pattern
from anabranch.contracts.fields.text_formats import has_format, is_bytes, is_text_format
from anabranch.ingest.landing.table.schema import spark_ddl

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from anabranch.testing._source_literals import Literals

_INT64: Final = 2**63
_EXACT: Final = Context(prec=2 * MAX_PRECISION)
# Composed and decomposed accents, case, blanks, quotes, words that parsers misread, and a long text.
_TEXTS: Final = (
    "",
    " ",
    "a",
    "A",
    "b",
    "null",
    "0",
    "1e3",
    "it's",
    '"',
    "\u00e9",
    "e\u0301",
    "\u03a9\U0001f6eb",
    "x" * 300,
)
_NUMBERS: Final = (0.0, -0.0, 0.1, 0.2, 0.3, 1.0, -1.5, 100.0, 1e16, 1e-300, 1e300)
_MOMENTS: Final = (
    *(datetime(1, 1, 1, tzinfo=UTC), datetime(1900, 1, 1, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC)),
    *(datetime(2013, 3, 10, 6, 59, 59, tzinfo=UTC), datetime(2016, 2, 29, 12, tzinfo=UTC)),
    datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
)
# No surrogates: they can't be encoded, and landing refuses what isn't UTF-8.
_LETTERS = st.characters(codec="utf-8")
# Few, so that a view that asks for one often finds it.
_FORMATTED: Final[Mapping[str, SearchStrategy[str]]] = {
    "uuid": st.uuids().map(str) | st.uuids().map(lambda made: str(made).upper()),
    "time": st.builds("{}{}".format, st.times().map(str), st.sampled_from(["", "Z", "+05:30"])),
}
_KEYS = st.sampled_from(["a", "b", "north", "", "a.b"]) | st.text(_LETTERS, max_size=4)


def values(node: Mapping[str, Any], named: Literals = ()) -> SearchStrategy[Any]:
    """Values of one node of a contract's schema, as landing would store them. Never null: see ``optional``. Those of
    ``named`` that the node allows come more often."""
    if "enum" in node:
        return st.sampled_from([value for value in node["enum"] if value is not None])
    match node["type"], node.get("format"):
        case "object", _ if is_map(node):
            return st.dictionaries(_KEYS, _inside(node["additionalProperties"], named), max_size=3)
        case "object", _:
            needed = set(node.get("required", ()))
            below = node.get("properties", {}).items()
            return st.fixed_dictionaries({name: optional(child, name in needed, named) for name, child in below})
        case "array", _:
            return st.lists(_inside(node["items"], named), max_size=3)
        case "string", "date-time":
            return st.sampled_from(_MOMENTS) | st.builds(_moment, st.integers(0, 3 * 86400))
        case _, "decimal":
            return _decimals(node)
        case "string", "date":
            return st.sampled_from([m.date() for m in _MOMENTS]) | st.dates(date(2012, 12, 30), date(2013, 1, 3))
        case "string", _ if is_bytes(node):
            return st.sampled_from([b"", b"\x00", b"a", b"\xff\xfe"]) | st.binary(max_size=8)
        case "string", _:
            return _with(_texts_of(named, node), _strings(node))
        case "integer", _:
            return _with(_integers_of(named, node), _integers(node))
        case "number", _:
            return _with(_numbers_of(named, node), _numbers(node))
        case _:
            return st.booleans()


def optional(node: Mapping[str, Any], required: bool, named: Literals = ()) -> SearchStrategy[Any]:
    return values(node, named) if required else st.none() | values(node, named)


def _inside(node: Mapping[str, Any], named: Literals) -> SearchStrategy[Any]:
    """Items of an array, or values of a map."""
    return optional(node, not may_be_null(node), named)


def pool_key(name: str, node: Mapping[str, Any]) -> str:
    """Fields with the same name, type and limits share one pool, so that joins between event types find partners."""
    limits = sorted((k, str(v)) for k, v in node.items() if k in ("enum", "minimum", "maximum", "pattern"))
    limits += [("format", node["format"])] if is_text_format(node) else []
    nulls = "".join(f" {path} or null" for path in nullable_paths(node))
    return f"{name} {spark_ddl(node)} {limits}{nulls}"


def pool(node: Mapping[str, Any], named: Literals = ()) -> SearchStrategy[list[Any]]:
    """The few values of a field in one log, so that groups have several rows, ties occur and extremes meet."""
    return st.lists(values(node, named), min_size=2, max_size=4)


def _with(named: Sequence[Any], drawn: SearchStrategy[Any]) -> SearchStrategy[Any]:
    return st.sampled_from(named) | drawn if named else drawn


def _texts_of(named: Literals, node: Mapping[str, Any]) -> list[str]:
    pattern = python_pattern(node.get("pattern", ""))
    texts = (text for text in named if isinstance(text, str) and _is_utf8(text) and pattern.search(text))
    return [text for text in texts if not is_text_format(node) or has_format(text, node["format"])]


def _is_utf8(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _integers_of(named: Literals, node: Mapping[str, Any]) -> list[int]:
    """Whole numbers, and those next to them: conditions are wrong by one."""
    low, high = max(node.get("minimum", -_INT64), -_INT64), min(node.get("maximum", _INT64 - 1), _INT64 - 1)
    near = {number + n for number in named if isinstance(number, int) for n in (-1, 0, 1)}
    return sorted(number for number in near if low <= number <= high)


def _numbers_of(named: Literals, node: Mapping[str, Any]) -> list[float]:
    numbers = [float(number) for number in named if not isinstance(number, str) and fits_double(number)]
    return [number for number in numbers if _within(number, node.get("minimum"), node.get("maximum"))]


def _moment(seconds: int) -> datetime:
    return datetime(2013, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


def _strings(node: Mapping[str, Any]) -> SearchStrategy[str]:
    if is_text_format(node):
        pattern = python_pattern(node.get("pattern", ""))
        return _FORMATTED[node["format"]].filter(lambda text: pattern.search(text) is not None)
    if "pattern" not in node:
        return st.sampled_from(_TEXTS) | st.text(_LETTERS, max_size=8)
    return st.from_regex(python_pattern(node["pattern"]), alphabet=_LETTERS)


def _integers(node: Mapping[str, Any]) -> SearchStrategy[int]:
    low = max(node.get("minimum", -_INT64), -_INT64)
    high = min(node.get("maximum", _INT64 - 1), _INT64 - 1)
    edges = [n for n in (low, high, 0, 1, -1, 15, 16, 60) if low <= n <= high]
    return (
        st.sampled_from(edges) | st.integers(max(low, -100), min(high, 100))
        if low <= 100 and high >= -100
        else (st.sampled_from(edges) | st.integers(low, high))
    )


def _numbers(node: Mapping[str, Any]) -> SearchStrategy[float]:
    low, high = node.get("minimum"), node.get("maximum")
    allowed = [x for x in (low, high, *_NUMBERS) if x is not None and _within(x, low, high)]
    drawn = st.floats(low, high, allow_nan=False, allow_infinity=False)
    return st.sampled_from([float(x) for x in allowed]) | drawn if allowed else drawn


def _decimals(node: Mapping[str, Any]) -> SearchStrategy[Decimal]:
    """Unscaled whole numbers: cents. Sums of 0.1 and 0.2, and of the largest and smallest, differ in floating point."""
    scale, most = node["scale"], 10 ** node["precision"] - 1
    low, high = (limit(node, keyword) for keyword in ("minimum", "maximum"))
    least = -most if low is None else int(low.scaleb(scale, _EXACT))
    greatest = most if high is None else int(high.scaleb(scale, _EXACT))
    wanted = (least, greatest, 0, 1, -1, 10**scale // 10, 2 * 10**scale // 10, 10**scale, least // 2, greatest // 2)
    edges = [n for n in wanted if least <= n <= greatest]
    drawn = st.sampled_from(edges) | st.integers(least, greatest)
    return drawn.map(lambda unscaled: Decimal(unscaled).scaleb(-scale, _EXACT))


def _within(number: float, low: float | None, high: float | None) -> bool:
    return (low is None or number >= low) and (high is None or number <= high)
