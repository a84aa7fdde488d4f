"""What a new version takes away from readers: columns that it removes, and types that hold fewer values than before.

Only the schemas of both speed tables are read, so this is known before anything is built or compared.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as kinds

from anabranch.core.settings import Settings
from anabranch.lake import open_table
from anabranch.lake.layout import VersionRef
from anabranch.views.model.definition import is_own


@dataclass(frozen=True, slots=True)
class BreakingChange:
    """A column that readers of the old version have. ``new``: its type in the new version; empty if it is removed."""

    column: str
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.column} changes from {self.old} to {self.new}" if self.new else f"{self.column} is removed"


def breaking_changes(settings: Settings, view: str, old: int, new: int) -> tuple[BreakingChange, ...]:
    """Return the breaking changes from version ``old`` to ``new``; none while one of them has no table."""
    tables = [open_table(VersionRef(settings, view, version).speed_table) for version in (old, new)]
    schemas = [pa.schema(table.schema().to_arrow()) for table in tables if table is not None]
    return breaking_columns(*map(own_columns, schemas)) if len(schemas) == 2 else ()


def own_columns(schema: pa.Schema) -> pa.Schema:
    """Return the columns of the view's author."""
    return pa.schema([field for field in schema if is_own(field.name)])


def breaking_columns(old: pa.Schema, new: pa.Schema) -> tuple[BreakingChange, ...]:
    """Return the columns of ``old`` that ``new`` lacks, or has with a type that doesn't hold each of their values."""
    found = []
    for field in old:
        if field.name not in new.names:
            found.append(BreakingChange(field.name, str(field.type), ""))
        elif not _holds(new.field(field.name).type, field.type):
            found.append(BreakingChange(field.name, str(field.type), str(new.field(field.name).type)))
    return tuple(found)


def undeclared_text(old: int, new: int, breaking: Sequence[BreakingChange], declared: Collection[str]) -> str:
    """Return a sentence about the breaking changes that nobody declared; "" if there are none."""
    left = [each for each in breaking if each.column not in declared]
    if not left:
        return ""
    return f"v{new} breaks readers of v{old}, and this was not declared: {', '.join(map(str, left))}"


def _holds(new: pa.DataType, old: pa.DataType) -> bool:
    """Whether ``new`` is the same kind of type as ``old`` and holds each of its values."""
    if new == old:
        return True
    if kinds.is_signed_integer(old) and kinds.is_signed_integer(new):
        return bool(new.bit_width >= old.bit_width)
    if kinds.is_floating(old) and kinds.is_floating(new):
        return bool(new.bit_width >= old.bit_width)
    if kinds.is_decimal(old) and kinds.is_decimal(new):
        return bool(new.scale >= old.scale and new.precision - new.scale >= old.precision - old.scale)
    if kinds.is_struct(old) and kinds.is_struct(new):
        names = [field.name for field in new]
        return all(field.name in names and _holds(new.field(field.name).type, field.type) for field in old)
    if _is_list(old) and _is_list(new):
        return _holds(new.value_type, old.value_type)
    if kinds.is_map(old) and kinds.is_map(new):
        return _holds(new.key_type, old.key_type) and _holds(new.item_type, old.item_type)
    return _is_text(old) and _is_text(new)


def _is_list(kind: pa.DataType) -> bool:
    return bool(kinds.is_list(kind) or kinds.is_large_list(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind))
