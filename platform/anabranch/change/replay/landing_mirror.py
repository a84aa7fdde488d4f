"""A landing table that is given out commit by commit, to a stream that would take all of it at once."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from deltalake import DeltaTable

from anabranch.core.errors import BrokenState
from anabranch.lake import CommitMetadata, Cut
from anabranch.lake.archived_commits import ARCHIVE, LOG, commit_file, commit_name, log_files, read_commit, versions
from anabranch.lake.commit_log import log_line
from anabranch.lake.rewrite_commits import MOVED
from anabranch.lake.version_checksum import metadata_of

_METADATA = '"metaData"'
_SCHEMA_OF = ".schema_of"
"""The version up to which landing's log says nothing of a schema that the mirror doesn't have from its start."""


@dataclass(frozen=True, slots=True)
class LandedCommit:
    """One commit of landing. ``rows`` is how many records it landed; ``newest_us`` the largest event time up to it
    (microseconds since 1970; None before the first event); ``cut`` None for a commit that landed nothing."""

    version: int
    commit_time_ms: int
    rows: int
    newest_us: int | None
    cut: Cut | None


class Mirror:
    """The folder ``folder`` as a Delta table: ``landing`` as it was at version ``given``.

    Its commits are landing's own, under their own numbers and the same table id, so a checkpoint of a stream over it
    goes on over landing itself. The data isn't copied. Opened again after a kill it goes on where it was.
    """

    def __init__(self, landing: str, folder: Path) -> None:
        self.uri = str(folder)
        self._landing, self._folder = Path(landing.removeprefix("file://")), folder
        self._log = folder / LOG
        if not versions(folder):
            self._begin()
        self.given = max(versions(folder))
        self._schema_of = int((self._folder / _SCHEMA_OF).read_text())

    def give(self, version: int) -> None:
        """Let the commits up to ``version`` be seen, in their order. A repeat changes nothing."""
        self._link_data()
        for number in range(self.given + 1, version + 1):
            self._copy(number)
            self.given = number

    def _begin(self) -> None:
        """Everything up to the base in one step, with the newest schema: its log gets its name last."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._link_data()
        commits = versions(self._landing)
        if not commits:
            raise BrokenState(
                "LANDING_GONE",
                f"{self._landing} has no commit",
                state="nothing was replayed",
                next_step="anabranch doctor says what else is missing; put the table back, or land the log again",
            )
        base, schema_of = self._base(commits)
        (self._folder / _SCHEMA_OF).write_text(str(schema_of))
        draft = self._folder / ".log"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
        for version, path in log_files(self._landing):
            own = version == base == commits[-1] and ".checkpoint" in path.name
            if (version < base or own) and not path.name.startswith(".") and path.suffix != ".crc":
                _link(path, draft / path.name)
        newest = {"metaData": metadata_of(DeltaTable(str(self._landing)))}
        _write(draft / commit_name(base), [*(a for a in self._actions(base) if "metaData" not in a), newest])
        draft.rename(self._log)

    def _base(self, commits: Sequence[int]) -> tuple[int, int]:
        """The oldest version to begin with, and the newest one that says something of the schema. The kept log reaches
        back to the oldest, and no file that a later commit names has been taken away since (by a compaction, say: then
        all up to it comes at once)."""
        base = commits[0]
        if base > 0:  # what came before is in a checkpoint
            names = ((version, path.name) for version, path in log_files(self._landing))
            checkpoints = (v for v, name in names if not name.startswith(".") and ".checkpoint" in name)
            # Where the newest commit is the only one that is left, the checkpoint of its own version.
            base = min(max(base, min(checkpoints, default=base) + 1), commits[-1])
        schema_of = base
        for version in commits:
            for action in self._actions(version):
                removed = action.get("remove")
                if removed and not (self._landing / unquote(removed["path"])).exists():
                    base = max(base, version)
                if "metaData" in action:
                    schema_of = version
        return base, max(base, schema_of)

    def _copy(self, version: int) -> None:
        """A commit under its own number, without what it says of a schema that the mirror has from its start."""
        path = commit_file(self._landing, version)
        if version > self._schema_of:
            checksum = path.with_suffix(".crc")
            if checksum.exists():
                _link(checksum, self._log / checksum.name)
        elif _METADATA in read_commit(self._landing, version):
            self._commit(version, [a for a in self._actions(version) if "metaData" not in a])
            return
        _link(path, self._log / path.name)

    def _commit(self, version: int, actions: Sequence[Mapping[str, Any]]) -> None:
        _write(self._log / commit_name(version), actions)

    def _landed(self, version: int) -> LandedCommit:
        return _landed(version, read_commit(self._landing, version))

    def _actions(self, version: int) -> Iterator[dict[str, Any]]:
        return (json.loads(line) for line in read_commit(self._landing, version).splitlines() if line)

    def _link_data(self) -> None:
        for entry in self._landing.iterdir():
            link = self._folder / entry.name
            if entry.name not in (LOG, ARCHIVE) and not link.is_symlink():
                link.symlink_to(entry)


class LandedCommits:
    """The commits of one landing table, in their order; each is read once."""

    def __init__(self, landing: str) -> None:
        self._table = Path(landing.removeprefix("file://"))
        self._next: int | None = None

    def more(self) -> list[LandedCommit]:
        """Those that were made since the last call."""
        if self._next is None:
            self._next = min(versions(self._table), default=0)
        found = []
        with suppress(FileNotFoundError):
            while True:
                found.append(_landed(self._next, read_commit(self._table, self._next)))
                self._next += 1
        return found


def _landed(version: int, text: str) -> LandedCommit:
    said: dict[str, object] = {}
    for line in text.splitlines():
        if line.startswith('{"commitInfo"'):
            said = json.loads(line)["commitInfo"]
            break
    note = CommitMetadata.from_text(str(said.get("userMetadata") or ""))
    time = int(str(said.get("timestamp") or 0))
    if note is None:
        return LandedCommit(version, time, 0, None, None)
    newest, rows = note.extra.get("watermark_us"), int(note.extra.get("rows", 0))
    return LandedCommit(version, time, 0 if MOVED in note.extra else rows, newest, note.cut)


def _write(path: Path, actions: Sequence[Mapping[str, Any]]) -> None:
    """Whole or not there: a stream looks at this folder while it is written."""
    draft = path.with_name(f".{path.name}")
    draft.write_text("".join(map(log_line, actions)), encoding="utf-8")
    draft.rename(path)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except FileExistsError:
        return
    except OSError:  # another file system
        draft = target.with_name(f".{target.name}")
        shutil.copy2(source, draft)
        draft.rename(target)
