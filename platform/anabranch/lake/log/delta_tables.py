"""Opens Delta tables with delta-rs, wherever they are stored, and names their files."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote

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


def data_paths(table: DeltaTable, partitions: tuple[str, str, Any] | None = None) -> list[Path]:
    """The paths of a table's data files; ``partitions``: only of those partitions, by column, operator and value as
    delta-rs takes them."""
    return list(map(path_of, table.file_uris(file_pruning_predicate=None if partitions is None else [partitions])))


def data_path(folder: Path, spelt: str) -> Path:
    """The path of the data file that the log of the table in ``folder`` spells so: in its actions, and in delta-rs's
    ``get_add_actions``, it is relative to the folder, and escaped as in an URI."""
    return folder / unquote(spelt)
