"""Makes a backup: chooses the files of a cut, copies those that are new, writes the manifest, removes old backups."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from anabranch.core.errors import BadInput, Conflict, TryAgain
from anabranch.core.settings import Settings
from anabranch.lake.layout import existing_tables
from anabranch.operate.backup._backup_folder import BackupFolder, Removed, open_folder
from anabranch.operate.backup._chosen_files import Chosen, ChosenFile, choose, source_error
from anabranch.operate.backup._hashed_files import chunks_of
from anabranch.operate.backup._manifest import Manifest, SavedFile

_TRIES: Final = 5
"""How often files are chosen again because maintenance has deleted old commits meanwhile."""

_FILES_AT_ONCE: int = 1_000
"""After so many files what was copied is synchronized and remembered, so that a killed backup isn't in vain."""
_BYTES_AT_ONCE: Final = 100_000_000
"""The same after a file of this size."""


@dataclass(frozen=True, slots=True)
class Created:
    """A complete backup; ``copied``: how many files were new, ``copied_bytes``: their size."""

    manifest: Manifest
    copied: int
    copied_bytes: int
    removed: Removed
    seconds: float

    def __str__(self) -> str:
        made, gone = self.manifest, self.removed
        new = f"{self.copied:,} of them new ({self.copied_bytes / 1e6:,.2f} MB),"
        lines = [
            f"backup {made.name}: {', '.join(filter(None, made.covers)) or 'nothing landed'}",
            f"  {len(made.files):,} files ({made.size / 1e6:,.2f} MB), {new} in {self.seconds:.1f} s",
        ]
        if gone.backups or gone.files:
            size = f"{gone.files:,} files ({gone.size / 1e6:,.2f} MB)"
            lines.append(f"  removed: {', '.join(gone.backups) or 'what a killed one had copied'}; {size}")
        return "\n".join([*lines, *([f"  {gone.held}"] if gone.held else [])])

    def to_json(self) -> dict[str, Any]:
        removed = {"backups": self.removed.backups, "files": self.removed.files, "bytes": self.removed.size}
        copied = {"copied": self.copied, "copied_bytes": self.copied_bytes, "seconds": round(self.seconds, 3)}
        return {**self.manifest.to_json(), **copied, "removed": {**removed, "held": self.removed.held}}


def create_backup(settings: Settings, folder: Path, keep: int | None = None) -> Created:
    """Back up what can't be made again into ``folder``; with ``keep``, remove all but the newest ``keep`` backups.

    Call it as often as you like, running or stopped: it reads the home and writes only to ``folder``. After a kill the
    backups before it are complete, and the next call uses what was copied. Not in it, because it can be made again:
    both halves of views, checkpoints, the index of ids.

    Raises BadInput BACKUP_EMPTY, BACKUP_INSIDE, BACKUP_FOREIGN or BACKUP_FORMAT; Conflict BACKUP_RUNNING or
    BACKUP_OTHER_HOME; TryAgain DISK_FULL or BACKUP_UNSETTLED; BrokenState BACKUP_UNWRITABLE, BACKUP_SOURCE,
    FILES_MISSING or TABLE_UNREADABLE. No backup was added then.
    """
    began = time.monotonic()
    _check_places(settings, folder)
    target = open_folder(folder, create=True)
    with target.exclusive():
        newest = target.newest()
        copier = _Copier(target, newest)
        chosen, files = _settled(settings, newest, copier)
        number = max((int(name[:6]) for name in target.names()), default=0) + 1
        manifest = Manifest(number, datetime.now(UTC), chosen.tables, chosen.published, files)
        target.write(manifest)
        removed = target.retain(keep) if keep else Removed()
    return Created(manifest, copier.files, copier.size, removed, time.monotonic() - began)


def _settled(settings: Settings, newest: Manifest | None, copier: _Copier) -> tuple[Chosen, tuple[SavedFile, ...]]:
    """One cut, all of it copied. Raises TryAgain BACKUP_UNSETTLED."""
    for _ in range(_TRIES):
        try:
            chosen = choose(settings)
            _check_same_home(copier.target, newest, chosen)
            return chosen, copier.copy(chosen)
        except (FileNotFoundError, _Vanished):
            continue
    raise TryAgain(
        "BACKUP_UNSETTLED",
        f"maintenance deleted files while they were copied, {_TRIES} times",
        state="no backup was added; complete ones are not affected",
        next_step="run it again when maintenance has ended",
    )


class _Vanished(Exception):
    """A chosen file is gone: maintenance deletes commits that are past their retention."""


class _Copier:
    """Copies the files that the folder doesn't have; ``files`` and ``size`` count the new ones."""

    def __init__(self, target: BackupFolder, newest: Manifest | None) -> None:
        self.target = target
        self.files, self.size = 0, 0
        self._known = newest.by_identity() if newest else {}
        self._on_disk = {file.sha256 for file in newest.files} if newest else set()
        for named, file in target.remembered():
            self._known[named] = file
            self._on_disk.add(file.sha256)
        self._fresh: list[tuple[str, SavedFile]] = []

    def copy(self, chosen: Chosen) -> tuple[SavedFile, ...]:
        self.target.check_space(sum(file.size for file in chosen.files if self._found(file) is None))
        return tuple(self._found(file) or self._copied(file) for file in chosen.files)

    def _found(self, file: ChosenFile) -> SavedFile | None:
        """What the newest backup has of this file. Of one that never changes, its time has to be the same, too: after a
        restore a table may have another commit under the same number."""
        if not file.identity:
            same = SavedFile(file.path, file.size, file.mtime_ns, hashlib.sha256(file.content).hexdigest())
            return same if same.sha256 in self._on_disk and self.target.has(same) else None
        have = self._known.get(file.identity)
        if have is None or (have.size, have.mtime_ns) != (file.size, file.mtime_ns) or not self.target.has(have):
            return None
        return SavedFile(file.path, have.size, have.mtime_ns, have.sha256)

    def _copied(self, file: ChosenFile) -> SavedFile:
        sha256, size, is_new = self.target.put(_chunks(file))
        self.files, self.size = self.files + is_new, self.size + is_new * size
        saved = SavedFile(file.path, size, file.mtime_ns, sha256)
        self._known[file.identity] = saved
        self._fresh.append((file.identity, saved))
        if len(self._fresh) >= _FILES_AT_ONCE or size >= _BYTES_AT_ONCE:
            self.target.remember(self._fresh)
            self._fresh.clear()
        return saved


def _chunks(file: ChosenFile) -> Iterator[bytes]:
    """The content of a file, from the first of its places that has it. Raises _Vanished, or BrokenState
    BACKUP_SOURCE."""
    if not file.identity:
        yield file.content
        return
    for place in file.places:
        try:
            yield from chunks_of(place)
            return
        except FileNotFoundError:
            continue
        except OSError as error:
            raise source_error(place, error) from error
    raise _Vanished(file.path)


def _check_places(settings: Settings, folder: Path) -> None:
    if not existing_tables(settings, "landing"):
        raise BadInput(
            "BACKUP_EMPTY",
            f"{settings.home} has no landing table: there is nothing to back up",
            state="nothing was written",
            next_step="is ANABRANCH_HOME the right one? To get a backup back: anabranch restore FOLDER",
        )
    home, there = settings.home, folder.expanduser().absolute()
    if any(there == each or each in there.parents or there in each.parents for each in (home, home.resolve())):
        raise BadInput(
            "BACKUP_INSIDE",
            f"{there} lies in {home}, or the other way round: one lost disk would take both",
            state="nothing was written",
            next_step="choose a folder on another disk",
            folder=str(there),
        )


def _check_same_home(target: BackupFolder, newest: Manifest | None, chosen: Chosen) -> None:
    """Raises Conflict BACKUP_OTHER_HOME: an empty platform that was started in the place of a lost one must not push
    the good backups out by its retention."""
    now = {table.path: table.table_id for table in chosen.tables}
    for table in newest.landing if newest else ():
        if now.get(table.path) != table.table_id:
            raise Conflict(
                "BACKUP_OTHER_HOME",
                f"{table.path} of this home isn't the table that the newest backup in {target.path} is of",
                state="nothing was copied or removed",
                next_step="if the home was lost: anabranch restore. If this table is right: choose another folder",
                folder=str(target.path),
                table=table.path,
            )
