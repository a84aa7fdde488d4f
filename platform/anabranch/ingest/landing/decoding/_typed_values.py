"""Times, dates, bytes and decimals of parsed values, as Spark expressions. What can't be converted is null."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from anabranch.contracts.fields.decimals import is_decimal
from anabranch.contracts.fields.field_types import Node, is_map, is_nested
from anabranch.contracts.fields.text_formats import BASE64, DATE, DATE_TIME, is_bytes
from anabranch.ingest.landing.decoding._decimals import decimal_of
from anabranch.ingest.landing.table.schema import parsed_ddl, spark_ddl


def typed(value: Column, node: Node, *, nested: bool = False) -> Column:
    """A parsed value in the types of landing. ``nested``: it lies in a map or an array of objects, where texts are
    variants, and no number is taken for one."""
    if not nested and parsed_ddl(node) == spark_ddl(node):
        return value
    nested = nested or is_nested(node)
    if is_map(node):
        values = node["additionalProperties"]
        return F.transform_values(value, lambda _, each: typed(each, values, nested=True))
    if node["type"] == "object":
        below = node.get("properties", {}).items()
        fields = (typed(value[name], child, nested=nested).alias(name) for name, child in below)
        return F.when(value.isNotNull(), F.struct(*fields))
    if node["type"] == "array":
        return F.transform(value, lambda item: typed(item, node["items"], nested=nested))
    if is_decimal(node):
        return decimal_of(value, node)
    if node["type"] != "string":
        return value
    return of_text(_string_in(value) if nested else value, node)


def _string_in(raw: Column) -> Column:
    """The string in a variant; null if it holds anything else."""
    return F.when(F.schema_of_variant(raw) == "STRING", F.try_variant_get(raw, "$", "string"))


def of_text(text: Column, node: Node) -> Column:
    """The time, date or bytes in a text, or the text, as the node says."""
    if is_bytes(node):
        whole = text.rlike(rf"^{BASE64}\z") & (F.length(text) % 4 == 0)
        return F.when(whole, F.unbase64(text))
    match node.get("format"):
        case "date-time":
            return time_of(text)
        case "date":
            return F.when(text.rlike(rf"^{DATE}\z"), text.try_cast("date"))
        case _:
            return text


def time_of(text: Column) -> Column:
    """The time in an RFC 3339 text, to the microsecond; null if it is none."""
    return F.when(text.rlike(rf"^{DATE_TIME}\z"), F.try_to_timestamp(text))
