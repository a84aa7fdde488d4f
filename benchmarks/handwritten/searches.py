"""Saved searches by hand: every search's text in one query, as Spark's own conditions, each tried for each event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

CHUNK = 500
"""Conditions in one array: Spark makes code for an expression as a whole, and none for one that is too long."""


def matching(events: DataFrame, searches: Sequence[tuple[str, str]]) -> DataFrame:
    """The events with the searches (name, text) that they match. Who writes this by hand trusts the texts."""
    chunks = [searches[first : first + CHUNK] for first in range(0, len(searches), CHUNK)]
    names = [F.filter(F.array(*(_name(*each) for each in chunk)), lambda name: name.isNotNull()) for chunk in chunks]
    return events.withColumn("search", F.explode(F.concat(*names)))


def _name(search: str, text: str) -> Column:
    return F.when(F.expr(text), F.lit(search))
