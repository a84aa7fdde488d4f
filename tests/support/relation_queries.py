"""SQL as a person asks it of a DuckDB relation that a read gave."""

from __future__ import annotations

from typing import Any

import duckdb


def rows_of(relation: duckdb.DuckDBPyRelation, query: str) -> list[Any]:
    """``query`` names the relation v."""
    found = relation.query("v", query)
    assert found is not None, "it returns no rows"
    return found.fetchall()
