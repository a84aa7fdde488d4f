"""Whether the text of a record is one JSON value, and UTF-8, as Spark expressions."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import Column
from pyspark.sql import functions as F

from anabranch.contracts import CloudEvents, Topic
from anabranch.contracts.model.records import Mapped
from anabranch.ingest.landing.decoding._binary_mode import BINARY, has_json_data
from anabranch.ingest.landing.decoding._documents import END, json_text, wrapped


def one_value(topic: Topic) -> Iterator[Column]:
    """What must be true of a record that was parsed."""
    yield F.col("_event").isNotNull() & F.col(END).isNotNull() & F.is_valid_utf8(F.col("_text"))
    yield _is_one_value(topic)
    if isinstance(topic.records, CloudEvents):
        yield ~F.col(BINARY) | has_json_data()


def _is_one_value(topic: Topic) -> Column:
    """Whether a record is one value: the wrapping objects would read ``{...},"x":1`` as two fields of their own."""
    text, value = F.col("_text"), json_text(topic.records)
    more = _has_room(value) & value.rlike(r'\}\s*,\s*"')
    doubt = (~value.startswith("{") & value.rlike(r"^\s*[^{\s]")) | more  # one search with | is slow
    one = F.size(F.json_object_keys(wrapped(text))) == 2
    bare = F.size(F.json_object_keys(text)) == 1
    return ~doubt | (one & (bare if isinstance(topic.records, Mapped) else ~F.col(BINARY) | bare))


def _has_room(value: Column) -> Column:
    """Whether a text may have ``},"``, with or without blanks: that takes three characters from its first closing brace
    on, and one more if the last one is a brace. It is much cheaper than the search, and false for most records."""
    behind = F.octet_length(value) - F.octet_length(F.substring_index(value, "}", 1))
    return behind > F.when(value.endswith("}"), 3).otherwise(2)
