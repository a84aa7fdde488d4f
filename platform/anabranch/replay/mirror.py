"""A landing table that is given out commit by commit, to a stream that would take all of it at once."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from deltalake import DeltaTable

from anabranch.errors import BrokenState
from anabranch.tables import Cut, Note
from anabranch.tables.changes import log_line
from anabranch.tables.checksum import metadata_of
from anabranch.tables.moves import MOVED

_LOG = "_delta_log"
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
        self._log = folder / _LOG
        if not _versions(self._log):
            self._begin()
        self.given = max(_versions(self._log))
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
        commits = _versions(self._landing / _LOG)
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
        for path in (self._landing / _LOG).iterdir():
            head = path.name.partition(".")[0]
            if head.isdecimal() and int(head) < base and path.suffix != ".crc":
                _link(path, draft / path.name)
        newest = {"metaData": metadata_of(DeltaTable(str(self._landing)))}
        _write(draft / _name(base), [*(a for a in self._actions(base) if "metaData" not in a), newest])
        draft.rename(self._log)

    def _base(self, commits: Sequence[int]) -> tuple[int, int]:
        """The oldest version to begin with, and the newest one that says something of the schema. The kept log reaches
        back to the oldest, and no file that a later commit names has been taken away since (by a compaction, say: then
        all up to it comes at once)."""
        base = commits[0]
        if base > 0:  # what came before is in a checkpoint
            checkpoints = (p.name[:20] for p in (self._landing / _LOG).glob("*.checkpoint*.parquet"))
            base = max(base, min((int(v) for v in checkpoints if v.isdecimal()), default=base) + 1)
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
        path = self._landing / _LOG / _name(version)
        if version > self._schema_of:
            checksum = path.with_suffix(".crc")
            if checksum.exists():
                _link(checksum, self._log / checksum.name)
        elif _METADATA in path.read_text():
            self._commit(version, [a for a in self._actions(version) if "metaData" not in a])
            return
        _link(path, self._log / path.name)

    def _commit(self, version: int, actions: Sequence[Mapping[str, Any]]) -> None:
        _write(self._log / _name(version), actions)

    def _landed(self, version: int) -> LandedCommit:
        return _landed(version, self._landing / _LOG / _name(version))

    def _actions(self, version: int) -> Iterator[dict[str, Any]]:
        text = (self._landing / _LOG / _name(version)).read_text()
        return (json.loads(line) for line in text.splitlines() if line)

    def _link_data(self) -> None:
        for entry in self._landing.iterdir():
            link = self._folder / entry.name
            if entry.name != _LOG and not link.is_symlink():
                link.symlink_to(entry)


class LandedCommits:
    """The commits of one landing table, in their order; each is read once."""

    def __init__(self, landing: str) -> None:
        self._log = Path(landing.removeprefix("file://")) / _LOG
        self._next: int | None = None

    def more(self) -> list[LandedCommit]:
        """Those that were made since the last call."""
        if self._next is None:
            self._next = min(_versions(self._log), default=0)
        found = []
        while (path := self._log / _name(self._next)).exists():
            found.append(_landed(self._next, path))
            self._next += 1
        return found


def _versions(log: Path) -> list[int]:
    """The commits that a log still holds, in their order."""
    return sorted(int(path.stem) for path in log.glob("*.json") if path.stem.isdecimal())


def _landed(version: int, path: Path) -> LandedCommit:
    said: dict[str, object] = {}
    with path.open() as lines:
        for line in lines:
            if line.startswith('{"commitInfo"'):
                said = json.loads(line)["commitInfo"]
                break
    note = Note.from_text(str(said.get("userMetadata") or ""))
    time = int(str(said.get("timestamp") or 0))
    if note is None:
        return LandedCommit(version, time, 0, None, None)
    newest, rows = note.extra.get("watermark_us"), int(note.extra.get("rows", 0))
    return LandedCommit(version, time, 0 if MOVED in note.extra else rows, newest, note.cut)


def _name(version: int) -> str:
    return f"{version:020d}.json"


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
