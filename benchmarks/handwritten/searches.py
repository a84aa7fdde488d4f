"""Saved searches by hand: every search's text in one query, as Spark's own conditions, each tried for each event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CHUNK = 500
"""Conditions in one array: Spark makes code for an expression as a whole, and none for one that is too long."""


def matching(events: DataFrame, searches: Sequence[tuple[str, str]]) -> DataFrame:
    """The events with the searches (name, text) that they match. Who writes this by hand trusts the texts."""
    chunks = [searches[first : first + CHUNK] for first in range(0, len(searches), CHUNK)]
    names = ", ".join(f"filter(array({_names(chunk)}), name -> name IS NOT NULL)" for chunk in chunks)
    return events.selectExpr("*", f"explode(concat({names})) AS search")


def _names(searches: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"CASE WHEN {text} THEN '{search}' END" for search, text in searches)
