"""Decimals as Spark expressions. ``from_json`` leaves them as variants, which hold the digits of a JSON value as they
were written, and whether it was a string or a number."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from anabranch.contracts.fields.decimals import limit, pattern, type_name
from anabranch.contracts.fields.field_types import Node


def decimal_of(raw: Column, node: Node) -> Column:
    """The decimal in a variant; null if it holds none, or one that doesn't fit. Never rounded."""
    text, kind = F.try_variant_get(raw, "$", "string"), F.schema_of_variant(raw)
    # A number with an exponent or more than 38 digits is a double in a variant.
    declared = kind == "STRING" if node["type"] == "string" else kind.rlike("^(BIGINT|DECIMAL)")
    return F.when(declared, decimal_in(text, node))


def decimal_in(text: Column, node: Node) -> Column:
    """The decimal in a text; null if it is none, or one that doesn't fit."""
    return F.when(text.rlike(rf"^{pattern(node)}\z"), text.try_cast(type_name(node)))


def given(raw: Column) -> Column:
    """The variant, or null for a JSON null, which is a variant of its own."""
    return F.when(~F.is_variant_null(raw), raw)


def exact_limit(node: Node, keyword: str) -> Column:
    """A minimum or maximum, in the type of the decimal: nothing has to be widened to compare them."""
    return F.lit(format(limit(node, keyword), "f")).cast(type_name(node))
