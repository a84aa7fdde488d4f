"""The folder that backups are in. Content is stored once, under its hash; a manifest names what belongs to a backup.

::

    anabranch-backup.json     what this folder is, and its format
    objects/ab/ab12...        the content of a file, by its SHA-256
    backups/000002-...        a manifest for each complete backup
    copied                    files of a backup that is not complete, one a line: after a kill the next one uses them
    draft                     what is being written; renamed when it is complete

A kill leaves a draft, or objects that no manifest names. Both are overwritten, used or removed by a later backup.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from anabranch.core.atomic_files import locked, write_atomically
from anabranch.core.errors import BadInput, BrokenState, Conflict
from anabranch.core.formats import WRITTEN_BY, package_version, what_to_install
from anabranch.core.storage import listed
from anabranch.operate.backup._hashed_files import check_space, disk_errors, sync_disk, write_hashed
from anabranch.operate.backup._manifest import FORMAT, Manifest, NewerFormat, SavedFile

_MARKER: Final = "anabranch-backup.json"
_SUFFIX: Final = ".jsonl.gz"
_UNTOUCHED: Final = "no backup was added; complete ones are not affected"


@dataclass(frozen=True, slots=True)
class Removed:
    """What a retention has removed. ``held``: why no file was removed; empty if nothing held it."""

    backups: tuple[str, ...] = ()
    files: int = 0
    size: int = 0
    held: str = ""


class BackupFolder:
    """An existing backup folder. Writers hold ``exclusive``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._draft, self._copied = path / "draft", path / "copied"

    def names(self) -> list[str]:
        """The names of the backups, oldest first. Raises as ``disk``: a list that fails (a glob passes over that) isn't
        one of no backups, of which ``retain`` would remove every file."""
        with self.disk():
            return [path.name.removesuffix(_SUFFIX) for path in listed(self.path / "backups", f"[0-9]*{_SUFFIX}")]

    def read(self, name: str) -> Manifest:
        """Raises BadInput BACKUP_MISSING or BACKUP_FORMAT, BrokenState BACKUP_DAMAGED."""
        if name not in self.names():
            raise missing(self.path, f"no backup {name!a}; it has: {', '.join(self.names()[-5:]) or 'none'}")
        file = self._manifest(name)
        try:
            return Manifest.from_bytes(file.read_bytes())
        except NewerFormat as newer:
            raise _newer(self.path, *newer.args) from None
        except FileNotFoundError:
            raise missing(self.path, f"backup {name!a} has just been removed by another process") from None
        except (OSError, ValueError) as error:
            raise BrokenState(
                "BACKUP_DAMAGED",
                f"the manifest of backup {name} can't be read: {error}",
                state="nothing was restored or removed; the other backups are not affected",
                next_step=f"use another one: anabranch backup list {self.path}; this one is useless: rm {file}",
                damaged=[str(file)],
                backups=[name],
            ) from error

    def readable(self) -> list[Manifest]:
        """The manifests that can be read, oldest first."""
        found = []
        for name in self.names():
            with suppress(BrokenState):
                found.append(self.read(name))
        return found

    def newest(self) -> Manifest | None:
        """The newest manifest that can be read."""
        for name in reversed(self.names()):
            with suppress(BrokenState):
                return self.read(name)
        return None

    def content_file(self, sha256: str) -> Path:
        return self.path / "objects" / sha256[:2] / sha256

    def has(self, file: SavedFile) -> bool:
        """Whether the content of ``file`` is here, by its name and size. ``_verify`` reads it."""
        with suppress(OSError):
            return self.content_file(file.sha256).stat().st_size == file.size
        return False

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Raises Conflict BACKUP_RUNNING if another backup into this folder runs; the lock ends with its process."""
        running = Conflict(
            "BACKUP_RUNNING",
            f"another backup into {self.path} is running",
            state="this one wrote nothing",
            next_step="wait for it, or choose another folder",
        )
        with ExitStack() as held:
            with self.disk():
                held.enter_context(locked(self.path / "lock", refusal=running))
            yield

    def disk(self) -> AbstractContextManager[None]:
        return disk_errors(self.path, _UNTOUCHED)

    def check_space(self, needed: int) -> None:
        """Raises TryAgain DISK_FULL if ``needed`` bytes don't fit."""
        with self.disk():
            check_space(self.path, needed, f"nothing was copied; {_UNTOUCHED}")

    def put(self, chunks: Iterable[bytes]) -> tuple[str, int, bool]:
        """Store content; returns its hash, its size, and whether it is new here. It gets its name when it is complete.
        Only ``write`` makes sure that it is on disk: what no manifest names may be torn after a power cut."""
        with self.disk():
            sha256, size = write_hashed(self._draft, chunks)
            target = self.content_file(sha256)
            is_new = not target.exists()
            target.parent.mkdir(parents=True, exist_ok=True)
            self._draft.replace(target)
        return sha256, size, is_new

    def remember(self, files: Iterable[tuple[str, SavedFile]]) -> None:
        """Remember files with their identities for the next backup, in case that this one is killed."""
        with self.disk():
            sync_disk(self.path)
            with self._copied.open("a") as file:  # first a line break: a kill may have torn the last line
                file.writelines(f"\n{json.dumps([named, f.path, f.size, f.mtime_ns, f.sha256])}" for named, f in files)

    def remembered(self) -> Iterator[tuple[str, SavedFile]]:
        """What a killed backup has copied."""
        with suppress(FileNotFoundError):
            for line in self._copied.read_text(errors="replace").splitlines():
                with suppress(ValueError, TypeError):  # the torn one
                    named, *rest = json.loads(line)
                    yield named, SavedFile(*rest)

    def write(self, manifest: Manifest) -> None:
        """Make a backup complete: the only step that makes it visible."""
        with self.disk():
            write_hashed(self._draft, [manifest.to_bytes()])
            sync_disk(self.path)
            self._draft.replace(self._manifest(manifest.name))
            sync_disk(self.path)
            self._copied.unlink(missing_ok=True)

    def retain(self, keep: int) -> Removed:
        """Remove all but the newest ``keep`` backups, then the objects that no manifest names. One whose manifest can't
        be read is left alone, and with it all objects: nobody knows which are its own."""
        with self.disk():
            known = self.readable()
            old, kept = known[:-keep], known[-keep:]
            for manifest in old:
                self._manifest(manifest.name).unlink()
            names = tuple(manifest.name for manifest in old)
            if unreadable := sorted({*self.names()} - {manifest.name for manifest in kept}):
                return Removed(names, held=f"no file was removed: the manifest of {unreadable[0]} can't be read")
            needed = {file.sha256 for manifest in kept for file in manifest.files}
            unneeded = [path for path in (self.path / "objects").glob("??/*") if path.name not in needed]
            size = sum(path.stat().st_size for path in unneeded)
            for path in unneeded:
                path.unlink()
        return Removed(names, len(unneeded), size)

    def _manifest(self, name: str) -> Path:
        return self.path / "backups" / f"{name}{_SUFFIX}"


def open_folder(path: Path, *, create: bool = False) -> BackupFolder:
    """Raises BadInput BACKUP_FORMAT, or BACKUP_MISSING if there is no backup. With ``create`` it is made then, in an
    empty folder only (BACKUP_FOREIGN)."""
    path = path.expanduser().absolute()
    with disk_errors(path, _UNTOUCHED):
        if (path / _MARKER).exists():
            try:
                marker = json.loads((path / _MARKER).read_text())
                found = int(marker["format"])
            except (KeyError, TypeError) as error:
                raise ValueError(f"{_MARKER} isn't what a backup has written") from error
            if found > FORMAT:
                raise _newer(path, found, marker.get(WRITTEN_BY, ""))
        elif create:
            _make(path)
        else:
            raise missing(path, "no backup")
    return BackupFolder(path)


def _make(path: Path) -> None:
    """A new folder; its marker is written last, so after a kill it is made again."""
    path.mkdir(parents=True, exist_ok=True)
    ours = ("lost+found", "objects", "backups")
    strangers = [each.name for each in path.iterdir() if each.name not in ours and _MARKER not in each.name]
    if strangers:
        raise BadInput(
            "BACKUP_FOREIGN",
            f"{path} holds something else: {min(strangers)!a}",
            state="nothing was written",
            next_step="choose an empty folder, or one that backups are in",
            folder=str(path),
        )
    for name in ("objects", "backups"):
        (path / name).mkdir(exist_ok=True)
    write_atomically(path / _MARKER, json.dumps({"format": FORMAT, WRITTEN_BY: package_version()}))


def list_backups(folder: Path) -> list[Manifest]:
    """The complete backups of a folder, oldest first."""
    return open_folder(folder).readable()


def missing(path: Path, what: str) -> BadInput:
    return BadInput(
        "BACKUP_MISSING",
        f"{str(path)!a} holds {what}",
        state="nothing was read or written",
        next_step="is its disk mounted? anabranch backup list FOLDER shows what there is, backup create makes one",
        folder=str(path),
    )


def _newer(path: Path, found: object, written_by: object) -> BadInput:
    return BadInput(
        "BACKUP_FORMAT",
        f"{path} was written by a newer version: its format is {found}, this version knows {FORMAT}",
        state="nothing was read or written",
        next_step=what_to_install(written_by),
        folder=str(path),
    )
