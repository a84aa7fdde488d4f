"""Opens Delta tables with delta-rs, wherever they are stored."""

from __future__ import annotations

from pathlib import Path

from deltalake import DeltaTable

from anabranch.core.storage import path_of, storage_of


def delta_table(uri: str | Path, version: int | None = None) -> DeltaTable:
    """The table at its newest version, or at ``version``. Raises what delta-rs raises: most callers want
    ``lake.open_table``."""
    folder = path_of(str(uri))
    storage = storage_of(folder)
    return DeltaTable(storage.uri(folder), version=version, storage_options=dict(storage.delta_options) or None)


def folder_of(table: DeltaTable) -> Path:
    """The folder of a table."""
    return path_of(table.table_uri)
