"""Decides whether parsed maps, and arrays of objects, are what their contract says, as Spark expressions.

``from_json`` keeps every pair of a map, also two with one key. Texts and decimals inside are left as variants. Null is
also what a value becomes that can't be parsed or converted: it is allowed only where null was sent.
"""

from __future__ import annotations

import math
from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F

from anabranch.contracts.fields.decimals import is_decimal
from anabranch.contracts.fields.field_types import Node, is_double, is_map
from anabranch.contracts.fields.null_values import may_be_null
from anabranch.contracts.fields.text_formats import is_bytes
from anabranch.ingest.landing.decoding._decimals import given
from anabranch.ingest.landing.decoding._text_rules import in_format
from anabranch.ingest.landing.decoding._typed_values import typed


def breaks_map(raw: Column, node: Node) -> Column:
    """Whether a parsed map has a key twice, a value of another type, or a null that isn't allowed, at any
    depth; never null."""
    keys, values = F.map_keys(raw), node["additionalProperties"]
    repeated = F.size(F.array_distinct(keys)) < F.size(keys)
    return _true(repeated | F.exists(F.map_values(raw), lambda each: _breaks_item(each, values)))


def breaks_array(raw: Column, items: Node) -> Column:
    """Whether an array of objects, arrays or maps holds a value of another type, or a null that isn't allowed, at any
    depth; never null."""
    return _true(F.exists(raw, lambda item: _breaks_item(item, items)))


def loses_item(raw: Column, value: Column, items: Node) -> Column:
    """Whether an item of an array of scalars, which may be null, is null in ``value`` only: it couldn't be converted.
    What can't be parsed leaves the whole array null, which is decided elsewhere."""
    if "format" not in items and not is_bytes(items):
        return F.lit(False)
    sent = F.filter(raw, lambda item: (given(item) if is_decimal(items) else item).isNull())
    return F.size(F.filter(value, lambda item: in_format(item, items).isNull())) > F.size(sent)


def fits_double(raw: Column) -> Column:
    """Whether a parsed number is one: a text like ``1e400`` is beyond a double, and parsed as infinity."""
    return F.abs(raw) < F.lit(math.inf)


def _breaks_item(raw: Column, node: Node) -> Column:
    if may_be_null(node):
        return _breaks_inside(raw, node)
    missing = given(raw).isNull() if _is_variant(node) else raw.isNull()
    return missing | _breaks_inside(raw, node)


def _breaks_inside(raw: Column, node: Node) -> Column:
    """Whether a value is neither null nor what its node says."""
    if is_map(node):
        return breaks_map(raw, node)
    if _is_variant(node):
        return _true(given(raw).isNotNull() & in_format(typed(raw, node, nested=True), node).isNull())
    if is_double(node):
        return _true(~fits_double(raw))
    if node["type"] == "array":
        return breaks_array(raw, node["items"])
    fields = node.get("properties", {}).items()
    return reduce(or_, (_breaks_inside(raw[name], child) for name, child in fields), F.lit(False))


def _is_variant(node: Node) -> bool:
    return node["type"] == "string" or is_decimal(node)


def _true(holds: Column) -> Column:
    return F.coalesce(holds, F.lit(False))
