"""What a string's text must be like, as Spark expressions: its pattern, and its format if it stays a text."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import Column
from pyspark.sql import functions as F

from anabranch.contracts.fields.field_types import Node
from anabranch.contracts.fields.patterns import java_pattern
from anabranch.contracts.fields.text_formats import TEXT_FORMATS, is_text_format


def text_rules(text: Column, node: Node) -> Iterator[Column]:
    """What must be true of a text that isn't null."""
    if "pattern" in node:
        yield text.rlike(java_pattern(node["pattern"]))
    if is_text_format(node):
        yield _has_format(text, node)


def in_format(text: Column, node: Node) -> Column:
    """The text; null if it isn't of its format."""
    return F.when(_has_format(text, node), text) if is_text_format(node) else text


def _has_format(text: Column, node: Node) -> Column:
    """No JSON value but a string reads like one of these formats: so this also refuses what Spark has made a text."""
    return text.rlike(rf"^(?:{TEXT_FORMATS[node['format']]})\z")
