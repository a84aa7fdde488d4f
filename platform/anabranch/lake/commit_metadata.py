"""What commits say of themselves: the notes of a table, newest first, and what it covers by them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from dataclasses import replace as with_fields
from itertools import islice
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from anabranch.core.errors import BrokenState
from anabranch.lake.commit_errors import check_commit, unreadable
from anabranch.lake.commit_log import changes, iter_commit_info
from anabranch.lake.cut import Cut
from anabranch.lake.rewrite_commits import MOVED

_MARK = "mark"


@dataclass(frozen=True, slots=True)
class CommitMetadata:
    """What a commit says of itself. ``batch`` is the idempotency key: it is unique among a writer's commits."""

    writer: str
    batch: str
    cut: Cut
    fingerprint: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def to_text(self, mark: str = "") -> str:
        """As JSON. ``mark`` tells the commit that it is written for from all others: see ``lake.commit_outcome``."""
        return json.dumps(
            {
                "anabranch": 1,
                "writer": self.writer,
                "batch": self.batch,
                "cut": self.cut.to_json(),
                "fingerprint": self.fingerprint,
                **self.extra,
                **({_MARK: mark} if mark else {}),
            },
            separators=(",", ":"),
        )

    @staticmethod
    def from_text(text: str | None) -> CommitMetadata | None:
        """The note in a commit's ``userMetadata``; None when the commit isn't one of ours (OPTIMIZE, say)."""
        try:
            content = json.loads(text or "")
        except ValueError:
            return None
        if not isinstance(content, dict) or content.pop("anabranch", None) != 1:
            return None
        content.pop(_MARK, None)
        cut = Cut.from_json(content.pop("cut"))
        return CommitMetadata(content.pop("writer"), content.pop("batch"), cut, content.pop("fingerprint"), content)


@dataclass(frozen=True, slots=True)
class Commit:
    """A note, with the table version that carries it and the commit's time (ms since 1970). ``moved``: the newest later
    version that holds the same rows in other files."""

    version: int
    note: CommitMetadata
    commit_time_ms: int
    moved: int | None = None

    @property
    def rows_at(self) -> int:
        """The version whose files are kept the longest."""
        return self.version if self.moved is None else self.moved


def open_table(uri: str) -> DeltaTable | None:
    """The table at its newest version, or None where there is none. BrokenState TABLE_UNREADABLE."""
    try:
        found = DeltaTable(uri)
    except TableNotFoundError:
        return None
    except (DeltaError, OSError, ValueError) as error:
        raise unreadable(uri, error) from error
    check_commit(found)
    return found


def commit_history(table: DeltaTable | str, limit: int | None = None) -> Iterator[Commit]:
    """Our commits, newest first, from at most the ``limit`` newest of all commits; ends with the kept log.

    One that only moves rows isn't told beside the commit whose note it carries, but in its place where that is gone.
    """
    found = open_table(table) if isinstance(table, str) else table
    if found is None:
        return
    moved: Commit | None = None
    left = limit
    for committed, is_move in islice(_commits(found), limit):
        left = None if left is None else left - 1
        if committed is None:
            continue
        if is_move:
            moved = moved or committed
            continue
        yield committed if moved is None else with_fields(committed, moved=moved.version)
        moved = None
    if moved is not None and left != 0:  # the log ended first
        yield moved


def _commits(table: DeltaTable) -> Iterator[tuple[Commit | None, bool]]:
    """Each commit that has a note (None: it has none), and whether it only moves rows: then it stands for the one that
    it carries, with that one's time. BrokenState TABLE_UNREADABLE."""
    try:
        for version, info in iter_commit_info(table):
            note, time = CommitMetadata.from_text(info.get("userMetadata")), int(info.get("timestamp", 0))
            if note is None:
                yield None, False
                continue
            move = note.extra.get(MOVED)
            if move is not None:
                note = with_fields(note, extra={name: said for name, said in note.extra.items() if name != MOVED})
                time = int(move["commit_time_ms"])
            yield Commit(version, note, time), move is not None
    except (ValueError, OSError) as error:
        raise unreadable(table.table_uri, error) from error


def latest_commit(table: DeltaTable | str) -> Commit | None:
    """The newest commit of ours, at the newest version that holds its rows; None when the table doesn't exist."""
    found = open_table(table) if isinstance(table, str) else table
    if found is None:
        return None
    for committed, _ in _commits(found):
        if committed is not None:
            return committed
    raise BrokenState(
        "NOTES_LOST",
        f"no commit of {found.table_uri} says what it covers",
        next_step="anabranch doctor names the table and the command that builds it again",
    )


def latest_verified_commit(table: DeltaTable | str) -> Commit | None:
    """The newest commit of ours, when the table's rows are what it left: for whoever believes its cut.

    Commits of others behind it that moved rows between files, or took back what they had done, are none of our
    business. BrokenState COMMIT_UNNAMED when one changed rows: then nothing says what the table covers.
    """
    found = open_table(table) if isinstance(table, str) else table
    committed = latest_commit(found) if found is not None else None
    if found is None or committed is None or committed.version == found.version():
        return committed
    strangers = [v for v in range(committed.version + 1, found.version() + 1) if _changes_rows(found, v)]
    if strangers and set(DeltaTable(found.table_uri, version=committed.version).file_uris()) != set(found.file_uris()):
        raise BrokenState(
            "COMMIT_UNNAMED",
            f"{found.table_uri}: commit {strangers[0]} changed rows and says neither its cut nor who wrote it",
            state=f"version {committed.version} is the newest that is known to be right",
            next_step=f"restore the table to version {committed.version}, and let nobody else write to it",
            table=found.table_uri,
            versions=strangers,
        )
    return committed


def _changes_rows(table: DeltaTable, version: int) -> bool:
    made = changes(table, version)
    return bool(made.added or made.removed)
