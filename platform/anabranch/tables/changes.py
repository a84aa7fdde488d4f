"""What one commit did to a table, read from its file in the log."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from deltalake import DeltaTable


@dataclass(frozen=True, slots=True)
class Changes:
    """``added`` and ``removed`` are the data files by which the rows of the table changed, as absolute paths: a commit
    that only moves rows between files has none. ``message`` is what its writer said of it."""

    added: tuple[Path, ...]
    removed: tuple[Path, ...]
    message: str | None


def changes(table: DeltaTable, version: int) -> Changes:
    """The commit that made ``version``. FileNotFoundError when the log doesn't hold it any more."""
    folder = Path(table.table_uri.removeprefix("file://"))
    lines = (folder / "_delta_log" / f"{version:020d}.json").read_text().splitlines()
    actions = [json.loads(line) for line in lines if line]
    files = {
        kind: tuple(
            folder / unquote(action[kind]["path"])
            for action in actions
            if kind in action and action[kind].get("dataChange", True)
        )
        for kind in ("add", "remove")
    }
    said = [action["commitInfo"].get("userMetadata") for action in actions if "commitInfo" in action]
    return Changes(files["add"], files["remove"], said[0] if said else None)
