"""Check that the rows of a view have the columns of the table that its earlier rows are in."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, Schema

from anabranch.core.errors import Conflict
from anabranch.views import View
from anabranch.views.model.definition import is_own


def check_columns(view: View, schema: pa.Schema, table: DeltaTable) -> None:
    """Raises Conflict DEFINITION_CHANGED if ``schema``, of the function's rows, has other columns than ``table``. The
    code of a view that passes all columns on stays the same when a contract gets another field."""
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    new, old = _own_types(Schema.from_arrow(nullable)), _own_types(table.schema())
    differing = sorted(name for name in {*new, *old} if new.get(name) != old.get(name))
    if differing:
        what = ", ".join(f"{name} ({_change(name, old, new)})" for name in differing)
        raise Conflict(
            "DEFINITION_CHANGED",
            f"{view.origin}: {view.name} v{view.version} returns other columns than it did: {what}",
            state="the table is unchanged; nothing was written",
            next_step=f"declare it as version={view.version + 1}, or select the columns by name",
            view=view.name,
            columns=differing,
        )


def _change(name: str, old: dict[str, Any], new: dict[str, Any]) -> str:
    return "added" if name not in old else "gone" if name not in new else "another type"


def _own_types(schema: Schema) -> dict[str, Any]:
    fields = json.loads(schema.to_json())["fields"]
    return {field["name"]: _plain(field["type"]) for field in fields if is_own(field["name"])}


def _plain(kind: Any) -> Any:
    """A type of Delta without what is nullable in it."""
    if not isinstance(kind, dict):
        return kind
    if kind["type"] == "struct":
        return {field["name"]: _plain(field["type"]) for field in kind["fields"]}
    return {name: _plain(kind[name]) for name in ("type", "elementType", "keyType", "valueType") if name in kind}
