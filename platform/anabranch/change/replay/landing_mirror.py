"""Mirror of a landing table that releases its commits one by one. A view's stream has no rate limit: it reads all
commits that it sees at once."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anabranch.core.errors import BrokenState
from anabranch.core.storage import path_of
from anabranch.lake import CommitMetadata
from anabranch.lake.cut import Cut
from anabranch.lake.log.archived_commits import (
    ARCHIVE,
    LOG,
    commit_name,
    kept_versions,
    log_names,
    read_commit,
    versions,
)
from anabranch.lake.log.commit_log import log_line
from anabranch.lake.log.delta_tables import data_path, delta_table
from anabranch.lake.log.rewrite_commits import MOVED
from anabranch.lake.log.version_checksum import metadata_of

_METADATA = '"metaData"'
_SCHEMA_OF = ".schema_of"
"""A file with a version of landing: the mirror starts with the schema of this version, so schema changes up to it are
left out."""


@dataclass(frozen=True, slots=True)
class LandedCommit:
    """One commit of landing. ``rows``: how many records it landed. ``newest_us``: the largest event time up to it
    (microseconds since 1970; None before the first event). ``cut``: None for a commit without landing's metadata."""

    version: int
    commit_time_ms: int
    rows: int
    newest_us: int | None
    cut: Cut | None


class Mirror:
    """A Delta table in ``folder`` that shows ``landing`` as of version ``released``.

    Its commits are landing's own, with the same version numbers and table id, so a stream's checkpoint over the mirror
    can continue over landing itself. Data files are linked, not copied. After a kill it continues where it was.
    """

    def __init__(self, landing: str, folder: Path) -> None:
        self.uri = str(folder)
        self._landing, self._folder = path_of(landing), folder
        self._log = folder / LOG
        if next(kept_versions(folder), None) is None:
            self._create()
        self.released = max(kept_versions(folder))
        self._schema_of = int((self._folder / _SCHEMA_OF).read_text())

    def release(self, version: int) -> None:
        """Make the commits up to ``version`` visible, in order. Idempotent."""
        self._link_data()
        for number in range(self.released + 1, version + 1):
            self._copy(number)
            self.released = number

    def _create(self) -> None:
        """Create the mirror at its base version, with the newest schema. Atomic: the log folder is renamed last."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._link_data()
        commits = versions(self._landing)
        if not commits:
            raise BrokenState(
                "LANDING_GONE",
                f"{self._landing} has no commit",
                state="nothing was replayed",
                next_step="anabranch doctor shows what else is missing; restore the table, or land the log again",
            )
        base, schema_of = self._base(commits)
        (self._folder / _SCHEMA_OF).write_text(str(schema_of))
        draft = self._folder / ".log"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
        for name, version in self._log_names():
            own = version == base == commits[-1] and ".checkpoint" in name
            if (version < base or own) and not name.startswith(".") and not name.endswith(".crc"):
                self._link(name, draft / name)
        newest = {"metaData": metadata_of(delta_table(str(self._landing)))}
        _write(draft / commit_name(base), [*(a for a in self._actions(base) if "metaData" not in a), newest])
        draft.rename(self._log)

    def _base(self, commits: Sequence[int]) -> tuple[int, int]:
        """Return the oldest version that the mirror can start at, and the newest version that changes the schema. The
        log reaches back to the base, and no file that a later commit removes has been deleted since (for example after
        a compaction: then everything up to it is released at once)."""
        base = commits[0]
        if base > 0:  # older commits are only in a checkpoint
            checkpoints = (v for name, v in self._log_names() if not name.startswith(".") and ".checkpoint" in name)
            # If only the newest commit is left, its own version's checkpoint is used.
            base = min(max(base, min(checkpoints, default=base) + 1), commits[-1])
        schema_of = base
        for version in commits:
            for action in self._actions(version):
                removed = action.get("remove")
                if removed and not data_path(self._landing, removed["path"]).exists():
                    base = max(base, version)
                if "metaData" in action:
                    schema_of = version
        return base, max(base, schema_of)

    def _copy(self, version: int) -> None:
        """Copy a commit under its own number, without a schema that the mirror already has from its start."""
        name = commit_name(version)
        if version <= self._schema_of and _METADATA in read_commit(self._landing, version):
            self._commit(version, [a for a in self._actions(version) if "metaData" not in a])
            return
        self._link(name, self._log / name)
        if version > self._schema_of:
            # Behind the commit: Delta's kernel refuses a table with the checksum of a version that isn't there.
            checksum = f"{name.removesuffix('.json')}.crc"
            with suppress(FileNotFoundError):
                self._link(checksum, self._log / checksum)

    def _log_names(self) -> Iterator[tuple[str, int]]:
        """Yield the names of the files of landing's log, each with its version, twice: both folders are listed again,
        because a file that moves from one to the other meanwhile may be in neither list."""
        return ((name, version) for _ in range(2) for version, name in log_names(self._landing))

    def _link(self, name: str, target: Path) -> None:
        """Link a file of landing's log, which may move from one folder to the other meanwhile. Raises FileNotFoundError
        if neither has it."""
        for folder in (LOG, ARCHIVE):
            with suppress(FileNotFoundError):
                return _link(self._landing / folder / name, target)
        return _link(self._landing / LOG / name, target)  # it was moved back between the two

    def _commit(self, version: int, actions: Sequence[Mapping[str, Any]]) -> None:
        _write(self._log / commit_name(version), actions)

    def _landed(self, version: int) -> LandedCommit:
        return _parse_commit(version, read_commit(self._landing, version))

    def _actions(self, version: int) -> Iterator[dict[str, Any]]:
        return (json.loads(line) for line in read_commit(self._landing, version).splitlines() if line)

    def _link_data(self) -> None:
        for entry in self._landing.iterdir():
            link = self._folder / entry.name
            if entry.name not in (LOG, ARCHIVE) and not link.is_symlink():
                link.symlink_to(entry)


class LandedCommits:
    """Reads the commits of one landing table in order, each once, and holds one of them at a time."""

    def __init__(self, landing: str) -> None:
        self._table = path_of(landing)
        self._next: int | None = None
        self._held: LandedCommit | None = None

    def peek(self) -> LandedCommit | None:
        """Return the next commit; None if there is no other one yet."""
        if self._held is None:
            if self._next is None:
                self._next = min(kept_versions(self._table), default=0)
            with suppress(FileNotFoundError):
                self._held = _parse_commit(self._next, read_commit(self._table, self._next))
                self._next += 1
        return self._held

    def take(self) -> None:
        """Go on behind the commit that ``peek`` has returned."""
        self._held = None

    def read_new(self) -> Iterator[LandedCommit]:
        """Yield the commits since the last call."""
        while (commit := self.peek()) is not None:
            self.take()
            yield commit


def _parse_commit(version: int, text: str) -> LandedCommit:
    info: dict[str, object] = {}
    for line in text.splitlines():
        if line.startswith('{"commitInfo"'):
            info = json.loads(line)["commitInfo"]
            break
    note = CommitMetadata.from_text(str(info.get("userMetadata") or ""))
    time = int(str(info.get("timestamp") or 0))
    if note is None:
        return LandedCommit(version, time, 0, None, None)
    newest, rows = note.extra.get("watermark_us"), int(note.extra.get("rows", 0))
    return LandedCommit(version, time, 0 if MOVED in note.extra else rows, newest, note.cut)


def _write(path: Path, actions: Sequence[Mapping[str, Any]]) -> None:
    """Write a commit atomically: a stream lists this folder meanwhile."""
    draft = path.with_name(f".{path.name}")
    draft.write_text("".join(map(log_line, actions)), encoding="utf-8")
    draft.rename(path)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except FileExistsError:
        return
    except FileNotFoundError:
        raise
    except OSError:  # a different file system
        draft = target.with_name(f".{target.name}")
        shutil.copy2(source, draft)
        draft.rename(target)
