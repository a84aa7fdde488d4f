"""Which aggregates give the same result for every order of rows, and what to write instead of the others.

This is an allow-list: an aggregate that isn't in it is refused, so an aggregate that a new Spark version adds can't
slip in.
"""

from __future__ import annotations

from typing import Any, Final

from anabranch.views._catalyst import kind_of
from anabranch.views._collations import loose_collation

EXACT: Final = frozenset(
    {
        *("Count", "CountIf", "Min", "Max", "BoolAnd", "BoolOr", "BitAndAgg", "BitOrAgg", "BitXorAgg", "RegrCount"),
        *("Percentile", "Median", "PercentileCont", "PercentileDisc", "HyperLogLogPlusPlus", "CountMinSketchAgg"),
        *("BitmapConstructAgg", "BitmapOrAgg", "BitmapAndAgg"),
        *("ThetaSketchAgg", "ThetaUnionAgg", "ThetaIntersectionAgg"),
    }
)
_ADDING = ("Sum", "Average")
_FLOATING = ("StddevSamp", "StddevPop", "VarianceSamp", "VariancePop", "Corr", "CovSample", "CovPopulation", "Product")
_FLOATING_FAMILIES = ("Regr", "Skewness", "Kurtosis", "Stddev", "Variance", "Covar")
_SORTED = ("SortArray",)
_NEWEST = "F.max(F.struct(<time>, 'log_partition', 'log_offset', <value>)) and take the field"
_INSTEAD: Final = {
    "First": _NEWEST,
    "Last": _NEWEST,
    "AnyValue": "F.min or F.max, or group by the column",
    "MaxBy": _NEWEST,
    "MinBy": _NEWEST.replace("max", "min"),
    "Mode": "a count per value, then F.max(F.struct('count', <value>))",
    "CollectList": "F.sort_array(F.collect_list(...)) in the same expression",
    "CollectSet": "F.sort_array(F.collect_set(...)) in the same expression",
    "ApproximatePercentile": "F.percentile, which is exact",
    "HllSketchAgg": "F.approx_count_distinct or F.theta_sketch_agg",
    "HllUnionAgg": "F.theta_union_agg",
}
KEEPS_FIRST: Final = "keeps whichever text comes first of those that its collation takes for equal"
LOWER: Final = "F.lower(...) of the column, which makes them equal texts, or F.collate(..., 'UTF8_BINARY')"
_DIVIDE = "F.sum of integers or decimals and F.count, and divide afterwards"


def order_dependence(function: Any, parent: str) -> tuple[str, str, str] | None:
    """Returns (error code, problem, what to write) for an aggregate whose result depends on the order of rows; None
    for an exact one. ``parent`` is the kind of the expression around it."""
    kind, name, kinds = kind_of(function), str(function.prettyName()), _input_type(function)
    column = f"{name} of {_input(function)} ({kinds})"
    if kind in EXACT or (kind in ("CollectList", "CollectSet") and parent in _SORTED):
        return ("VIEW_ORDER", f"{column} {KEEPS_FIRST}", LOWER) if loose_collation(type_of(function)) else None
    if kind in _ADDING:
        if str(function.dataType().typeName()) not in ("double", "float"):
            return None
        if kinds in ("double", "float"):
            return "VIEW_FLOAT", f"{column} depends on the order of rows: adding floats isn't exact", _CAST
        return "VIEW_FLOAT", f"{column} is summed as a double, which is exact below 2**53 only", _DIVIDE
    if kind in _FLOATING or kind.startswith(_FLOATING_FAMILIES):
        return "VIEW_FLOAT", f"{column} is computed in floating point, so it depends on the order of rows", _DIVIDE
    instead = _INSTEAD.get(
        kind, f"an aggregate known to be exact: {', '.join(sorted(EXACT))}, a sum of integers or decimals"
    )
    return "VIEW_ORDER", f"{column} depends on the order of rows, or isn't known to be independent of it", instead


_CAST = "a cast to decimal or integer before you add: F.sum(F.col('x').cast('decimal(18,2)'))"


def _input(function: Any) -> str:
    children = function.children()
    return str(children.apply(0).sql()) if children.size() else "rows"


def type_of(expression: Any) -> str:
    """All of an expression's type, with the fields of structs."""
    return str(expression.dataType().sql())


def _input_type(function: Any) -> str:
    children = function.children()
    return str(children.apply(0).dataType().simpleString()) if children.size() else "nothing"
