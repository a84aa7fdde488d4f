"""Tables that stay open in a process, and know when they were deleted and made again: delta-rs would apply the new
table's commits to the old one's state."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from anabranch.core.storage import path_of, storage_of
from anabranch.lake import open_table
from anabranch.lake.log.archived_commits import commit_file
from anabranch.lake.log.commit_errors import unreadable_table

UNREADABLE: Final = (DeltaError, OSError, ValueError)
"""What delta-rs raises when it can't read a log."""


@dataclass(frozen=True, slots=True)
class CommitId:
    """What tells a commit from another one of its version. ``info``: its first line, with the commit's mark; the first
    commit's also has the table's id. ``stamp`` alone isn't enough: a disk uses an inode again at once, and sizes and
    times may be equal."""

    stamp: str
    info: bytes


class OpenTable:
    """A table that stays open. Not thread-safe."""

    def __init__(self, uri: str, table: DeltaTable) -> None:
        self.uri = uri
        self.table = table
        self.commit = commit_id(uri, table.version())

    def is_valid(self) -> bool:
        """Whether the log still has the newest commit that is known here. Otherwise the table was deleted, and perhaps
        created again. Raises BrokenState TABLE_UNREADABLE."""
        return self.commit is not None and self.commit == commit_id(self.uri, self.table.version())

    def update(self) -> bool:
        """Read the newer commits; False if the table was created again just now. Raises one of UNREADABLE, for example
        when old commits of its log were deleted, and BrokenState TABLE_UNREADABLE."""
        version, commit = self.table.version(), self.commit
        self.table.update_incremental()
        if self.table.version() == version:
            return True
        self.commit = commit_id(self.uri, self.table.version())
        return commit == commit_id(self.uri, version)


@dataclass(slots=True)
class OpenTables:
    """Tables by their URI. Not thread-safe."""

    _open: dict[str, OpenTable] = field(default_factory=dict)

    def newest(self, uri: str) -> DeltaTable | None:
        """The table with its newest commit; None if there is none. The same object as before, unless it was created
        again, or was opened anew because its log was cleaned up. Raises BrokenState TABLE_UNREADABLE."""
        known = self._open.pop(uri, None)
        try:
            if known is None or not known.is_valid() or not known.update():
                known = None
        except UNREADABLE:
            known = None
        if known is None:
            table = open_table(uri)
            if table is None:
                return None
            known = OpenTable(uri, table)
        self._open[uri] = known
        return known.table


def commit_id(uri: str, version: int) -> CommitId | None:
    """The identity of the commit of ``version``; None if it isn't kept. Raises BrokenState TABLE_UNREADABLE."""
    try:
        path = commit_file(path_of(uri), version)
        storage = storage_of(path)
        with storage.reading(path) as file:
            return CommitId(storage.stamp(path), file.readline())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise unreadable_table(uri, error) from error
