"""Reads what one commit did to a table from its file in Delta's log."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from deltalake import DeltaTable

from anabranch.core.storage import storage_of
from anabranch.lake.log.archived_commits import LOG, commit_name, read_commit
from anabranch.lake.log.delta_tables import data_path, folder_of

_INFO: Final = '"commitInfo"'
_NEAR: Final = 20
"""An action is an object with one key, within these first characters: other lines of a large commit aren't parsed."""
_APPENDS: Final = {"commitInfo", "add"}
_MAKES: Final = {"metaData", "protocol"}
_NEW_ROWS: Final = {"dataChange": True}


@dataclass(frozen=True, slots=True)
class Changes:
    """``added`` and ``removed``: absolute paths of the data files by which the table's rows changed; empty for a commit
    that only moves rows between files. ``message``: the ``userMetadata`` of its writer."""

    added: tuple[Path, ...]
    removed: tuple[Path, ...]
    message: str | None


def log_line(action: Mapping[str, Any]) -> str:
    """An action as one line of a commit. Characters are never escaped: delta-rs decodes an escaped character beyond
    16 bits wrongly, and a statistic with such a character then skips a file that has matching rows."""
    return json.dumps(action, separators=(",", ":"), ensure_ascii=False) + "\n"


def changes(table: DeltaTable, version: int) -> Changes:
    """The changes of the commit that made ``version``. Raises FileNotFoundError if the log doesn't hold it any more."""
    folder = folder_of(table)
    actions = [json.loads(line) for line in _lines(folder, version)]
    files = {
        kind: tuple(
            data_path(folder, action[kind]["path"])
            for action in actions
            if kind in action and action[kind].get("dataChange", True)
        )
        for kind in ("add", "remove")
    }
    messages = [action["commitInfo"].get("userMetadata") for action in actions if "commitInfo" in action]
    return Changes(files["add"], files["remove"], messages[0] if messages else None)


def only_appends(table: DeltaTable, most: int) -> bool:
    """Whether readers find each commit up to the version of ``table`` in its log, ``most`` of them at most, and those
    behind the first, which makes the table, only add rows: the table's files are then what its commits added."""
    if table.version() >= most:
        return False
    folder = folder_of(table) / LOG
    storage = storage_of(folder)
    try:
        for version in range(table.version() + 1):
            known = _APPENDS if version else _APPENDS | _MAKES
            for action in map(json.loads, storage.read(folder / commit_name(version)).splitlines()):
                if not action.keys() <= known or not action.get("add", _NEW_ROWS).get("dataChange"):
                    return False
    except (FileNotFoundError, ValueError):  # a commit is archived, deleted or torn
        return False
    return True


def message_of(folder: Path, version: int) -> str | None:
    """The ``userMetadata`` of the commit that made ``version`` of the table in ``folder``. Raises FileNotFoundError, or
    ValueError for a torn file."""
    infos = [json.loads(line)["commitInfo"] for line in _lines(folder, version) if _INFO in line[:_NEAR]]
    return infos[0].get("userMetadata") if infos else None


def iter_commit_info(table: DeltaTable, newest: int | None = None) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yields each version with its ``commitInfo``, from ``newest`` (default: the version of ``table``) back to the
    oldest kept commit.

    delta-rs's own ``history()`` also lists commits that were made after the table was opened, and numbers them from the
    opened version, so that each gets the number of an older one. Raises ValueError for a torn file.
    """
    folder = folder_of(table)
    for version in range(table.version() if newest is None else newest, -1, -1):
        try:
            lines = _lines(folder, version)
        except FileNotFoundError:  # deleted by maintenance, and so are all before it
            return
        infos = (json.loads(line)["commitInfo"] for line in lines if _INFO in line[:_NEAR])
        yield version, next(infos, {})


def _lines(folder: Path, version: int) -> list[str]:
    return [line for line in read_commit(folder, version).splitlines() if line]
