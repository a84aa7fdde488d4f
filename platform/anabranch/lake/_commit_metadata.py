"""The metadata of our commits: who wrote a commit, which batch, and which cut the table covers; newest first."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from dataclasses import replace as with_fields
from itertools import islice
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from anabranch.core.errors import BrokenState
from anabranch.core.formats import WRITTEN_BY, newer_format, package_version
from anabranch.lake.cut import Cut
from anabranch.lake.log.commit_errors import check_commit, unreadable_table
from anabranch.lake.log.commit_log import changes, iter_commit_info
from anabranch.lake.log.delta_tables import delta_table
from anabranch.lake.log.rewrite_commits import MOVED

COMMIT_FORMAT: Final = 1
"""The format of our commits: their metadata, and what the rows of their table mean. A change of either in a way
that an older version would misunderstand raises it, so that older versions refuse the table (ADR 0046)."""
_FORMAT: Final = "anabranch"
_MARK: Final = "mark"


@dataclass(frozen=True, slots=True)
class CommitMetadata:
    """The metadata in a commit. ``batch`` is the idempotency key: it is unique among a writer's commits."""

    writer: str
    batch: str
    cut: Cut
    fingerprint: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def to_text(self, mark: str = "") -> str:
        """As JSON. ``mark`` identifies one attempt to commit it: see ``lake.log.commit_outcome``."""
        return json.dumps(
            {
                _FORMAT: COMMIT_FORMAT,
                WRITTEN_BY: package_version(),
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
    def from_text(text: str | None, table: str = "a table") -> CommitMetadata | None:
        """The metadata in a commit's ``userMetadata``; None if the commit isn't one of ours (an OPTIMIZE, for
        example). Raises BrokenState FORMAT_NEWER, which names ``table``: taken for another tool's commit, it would be
        passed over."""
        try:
            content = json.loads(text or "")
        except ValueError:
            return None
        stored = content.pop(_FORMAT, None) if isinstance(content, dict) else None
        written_by = content.pop(WRITTEN_BY, "") if stored is not None else ""
        if isinstance(stored, int) and stored > COMMIT_FORMAT:
            raise newer_format(table, "table", stored, COMMIT_FORMAT, written_by)
        if stored != COMMIT_FORMAT:
            return None
        content.pop(_MARK, None)
        cut = Cut.from_json(content.pop("cut"))
        return CommitMetadata(content.pop("writer"), content.pop("batch"), cut, content.pop("fingerprint"), content)


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit's metadata (``note``), its table version, and its time (ms since 1970). ``moved``: the newest later
    version that holds the same rows in other files."""

    version: int
    note: CommitMetadata
    commit_time_ms: int
    moved: int | None = None

    @property
    def rows_at(self) -> int:
        """The version with the same rows whose files are kept the longest."""
        return self.version if self.moved is None else self.moved


def open_table(uri: str) -> DeltaTable | None:
    """The table at its newest version, or None if there is none. Raises BrokenState TABLE_UNREADABLE, or FORMAT_NEWER
    if a newer version of this package has written the newest commit."""
    try:
        found = delta_table(uri)
    except TableNotFoundError:
        return None
    except (DeltaError, OSError, ValueError) as error:
        raise unreadable_table(uri, error) from error
    check_commit(found)
    next(_commits(found), None)
    return found


def commit_history(table: DeltaTable | str, limit: int | None = None, newest: int | None = None) -> Iterator[Commit]:
    """Our commits, newest first, from at most the ``limit`` newest of all commits up to version ``newest`` (None: all),
    down to the oldest kept one.

    A commit that only moves rows carries the metadata of the commit before it. It isn't listed together with that one,
    but replaces it if that one is no longer kept.
    """
    found = open_table(table) if isinstance(table, str) else table
    if found is None:
        return
    moved: Commit | None = None
    left = limit
    for committed, is_move in islice(_commits(found, newest), limit):
        left = None if left is None else left - 1
        if committed is None:
            continue
        if is_move:
            moved = moved or committed
            continue
        yield committed if moved is None else with_fields(committed, moved=moved.version)
        moved = None
    if moved is not None and left != 0:  # the kept log ends before the original commit
        yield moved


def _commits(table: DeltaTable, newest: int | None = None) -> Iterator[tuple[Commit | None, bool]]:
    """Each commit, or None if it has no metadata of ours, and whether it only moves rows: then it gets the time of the
    commit whose metadata it carries. Raises BrokenState TABLE_UNREADABLE."""
    try:
        for version, info in iter_commit_info(table, newest):
            note = CommitMetadata.from_text(info.get("userMetadata"), table.table_uri)
            time = int(info.get("timestamp", 0))
            if note is None:
                yield None, False
                continue
            move = note.extra.get(MOVED)
            if move is not None:
                note = with_fields(note, extra={name: value for name, value in note.extra.items() if name != MOVED})
                time = int(move["commit_time_ms"])
            yield Commit(version, note, time), move is not None
    except (ValueError, OSError) as error:
        raise unreadable_table(table.table_uri, error) from error


def latest_commit(table: DeltaTable | str) -> Commit | None:
    """Our newest commit, at the newest version that holds its rows; None if the table doesn't exist."""
    found = open_table(table) if isinstance(table, str) else table
    if found is None:
        return None
    for committed, _ in _commits(found):
        if committed is not None:
            return committed
    raise BrokenState(
        "NOTES_LOST",
        f"no commit of {found.table_uri} carries our metadata, so its cut is unknown",
        next_step="run anabranch doctor: it names the table and the command that rebuilds it",
    )


def latest_verified_commit(table: DeltaTable | str) -> Commit | None:
    """The latest platform commit, verified that no other writer has changed rows since. Call it before you rely on the
    commit's cut.

    Later commits of others are allowed if they only moved rows between files, or if their changes were undone. Raises
    BrokenState COMMIT_UNNAMED if one changed rows: then it is unknown what the table covers.
    """
    found = open_table(table) if isinstance(table, str) else table
    committed = latest_commit(found) if found is not None else None
    if found is not None and committed is not None:
        check_unchanged_since(found, committed)
    return committed


def check_unchanged_since(
    table: DeltaTable, committed: Commit, besides: tuple[str, Collection[str]] | None = None
) -> None:
    """Raise BrokenState COMMIT_UNNAMED if another writer has changed rows since ``committed``, our latest commit.

    ``besides``: a column and its partitions whose rows may have changed, because the caller replaces them.
    """
    if committed.version == table.version():
        return
    strangers = [v for v in range(committed.version + 1, table.version() + 1) if _changes_rows(table, v)]
    if strangers and _files(delta_table(table.table_uri, committed.version), besides) != _files(table, besides):
        raise BrokenState(
            "COMMIT_UNNAMED",
            f"{table.table_uri}: commit {strangers[0]} changed rows without our metadata (writer and cut)",
            state=f"version {committed.version} is the newest that is known to be correct",
            next_step=f"restore the table to version {committed.version}, and let no other tool write to it",
            table=table.table_uri,
            versions=strangers,
        )


def _files(table: DeltaTable, besides: tuple[str, Collection[str]] | None) -> set[str]:
    if besides is None:
        return set(table.file_uris())
    column, values = besides
    actions = pa.table(table.get_add_actions(flatten=True))
    partitions = map(str, actions[f"partition.{column}"].to_pylist())
    return {path for path, at in zip(actions["path"].to_pylist(), partitions, strict=True) if at not in values}


def _changes_rows(table: DeltaTable, version: int) -> bool:
    made = changes(table, version)
    return bool(made.added or made.removed)
