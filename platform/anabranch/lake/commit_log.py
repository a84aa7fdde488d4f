"""What one commit did to a table, read from its file in the log."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from deltalake import DeltaTable

from anabranch.lake.archived_commits import read_commit

_INFO: Final = '"commitInfo"'
_NEAR: Final = 20
"""Characters: an action is an object with one key, which other lines of a large commit needn't be parsed for."""


@dataclass(frozen=True, slots=True)
class Changes:
    """``added`` and ``removed`` are the data files by which the rows of the table changed, as absolute paths: a commit
    that only moves rows between files has none. ``message`` is what its writer said of it."""

    added: tuple[Path, ...]
    removed: tuple[Path, ...]
    message: str | None


def log_line(action: Mapping[str, Any]) -> str:
    """An action as one line of a commit. Characters are never escaped: delta-rs reads the escapes of a character beyond
    16 bits as another one, and a statistic with it then skips a file that has matching rows."""
    return json.dumps(action, separators=(",", ":"), ensure_ascii=False) + "\n"


def changes(table: DeltaTable, version: int) -> Changes:
    """The commit that made ``version``. FileNotFoundError when the log doesn't hold it any more."""
    folder = folder_of(table)
    actions = [json.loads(line) for line in _lines(folder, version)]
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


def message_of(folder: Path, version: int) -> str | None:
    """What the writer of ``version`` of the table in ``folder`` said of it. FileNotFoundError; ValueError at a torn
    file."""
    infos = [json.loads(line)["commitInfo"] for line in _lines(folder, version) if _INFO in line[:_NEAR]]
    return infos[0].get("userMetadata") if infos else None


def iter_commit_info(table: DeltaTable) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Each version with its ``commitInfo``, from the one that ``table`` is at back to where the kept log ends.

    delta-rs's own ``history()`` lists the commits that came after the table was opened, too, and counts their numbers
    from the version that was opened: each is told under the number of an older one. ValueError at a torn file.
    """
    folder = folder_of(table)
    for version in range(table.version(), -1, -1):
        try:
            lines = _lines(folder, version)
        except FileNotFoundError:  # cleaned up, and so are all before it
            return
        infos = (json.loads(line)["commitInfo"] for line in lines if _INFO in line[:_NEAR])
        yield version, next(infos, {})


def folder_of(table: DeltaTable) -> Path:
    return Path(table.table_uri.removeprefix("file://"))


def _lines(folder: Path, version: int) -> list[str]:
    return [line for line in read_commit(folder, version).splitlines() if line]
