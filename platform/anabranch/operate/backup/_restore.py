"""Restores a backup into an empty home: copies into a folder of its own, compares every hash, moves it into place."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from anabranch.core.atomic_files import locked, write_atomically
from anabranch.core.engine.spark import SCRATCH
from anabranch.core.errors import BrokenState, Conflict
from anabranch.core.home_format import check_home
from anabranch.core.settings import Settings
from anabranch.lake.layout import restoring
from anabranch.operate.backup._backup_folder import BackupFolder, missing, open_folder
from anabranch.operate.backup._hashed_files import check_space, chunks_of, disk_errors, hash_of, sync_disk, write_hashed
from anabranch.operate.backup._manifest import ROOTS, Manifest, SavedFile
from anabranch.operate.runtime import process_registry

MAY_STAY: Final = frozenset(
    {"airflow", "kafka", "lost+found", "locks", "logs", "postgres", "run", "secrets", "tmp", ".restoring"}
)
"""What an empty home may hold: the servers' own data, which nothing of a backup refers to, and files of processes."""
_PLACING: Final = "placing"
"""A file in ``.restoring``: every hash was right, and files are being moved into place."""
_UNTOUCHED: Final = "nothing of it is visible in the home"
_PLACED: Final = "every hash was right, and some of its folders are in place; nothing starts in the home until all are"


@dataclass(frozen=True, slots=True)
class Restored:
    """A backup that is in place. Both halves of its views are made again by ``next_steps``."""

    manifest: Manifest
    seconds: float

    @property
    def next_steps(self) -> tuple[str, ...]:
        days = []
        for view, version, part in self.manifest.published_days():
            first, _, last = part.partition("..")
            until = f" --to {last}" if last else ""
            days.append(f"anabranch reprocess {view} --version {version} --from {first}{until}")
        return "anabranch up", "anabranch landing verify", *days

    def __str__(self) -> str:
        made = self.manifest
        covers = ", ".join(filter(None, made.covers)) or "nothing landed"
        lines = [
            f"restored backup {made.name}: {covers}",
            f"  {len(made.files):,} files ({made.size / 1e6:,.2f} MB), every hash is right, in {self.seconds:.1f} s",
            "next:",
        ]
        return "\n".join([*lines, *(f"  {step}" for step in self.next_steps)])

    def to_json(self) -> dict[str, Any]:
        return {**self.manifest.to_json(), "seconds": round(self.seconds, 3), "next": list(self.next_steps)}


def restore_backup(settings: Settings, folder: Path, name: str | None = None) -> Restored:
    """Restore the newest backup of ``folder`` (or the one called ``name``) into the home, which must be empty.

    After a kill, call it again: it continues. Nothing is visible in the home before every hash was compared, and
    `anabranch up` refuses to start until everything is in place (RESTORE_UNFINISHED).

    Raises BadInput BACKUP_MISSING or BACKUP_FORMAT; Conflict RESTORE_NOT_EMPTY or RESTORE_RUNNING; BrokenState
    BACKUP_DAMAGED or BACKUP_UNWRITABLE, or FORMAT_NEWER of the home in it; TryAgain DISK_FULL. The home is as empty as
    before then.
    """
    began = time.monotonic()
    source = open_folder(folder)
    chosen = name or next(reversed(source.names()), None)
    if chosen is None:
        raise missing(source.path, "no complete backup")
    manifest = source.read(chosen)
    with ExitStack() as held:
        with disk_errors(settings.home, _UNTOUCHED):
            held.enter_context(locked(settings.locks / "restore", refusal=_running(settings, "another restore")))
        parts = sorted(r.name for r in process_registry.read(settings).values() if process_registry.family(r))
        if parts:
            raise _running(settings, ", ".join(parts))
        _restore(settings, source, manifest)
    return Restored(manifest, time.monotonic() - began)


def _restore(settings: Settings, source: BackupFolder, manifest: Manifest) -> None:
    home, staging = settings.home, restoring(settings)
    with disk_errors(home, _UNTOUCHED):
        if not _is_placing(staging, manifest):
            _check_empty(home)
            staging.mkdir(parents=True, exist_ok=True)
            _remove_strangers(staging, {file.path for file in manifest.files})
            left = sum(file.size for file in manifest.files if not _has_size(staging / file.path, file))
            check_space(home, left, f"{_UNTOUCHED}; what was copied before is kept in {staging}")
            _copy(source, manifest, staging)
            _check_format(staging)
            sync_disk(staging)
            write_atomically(staging / _PLACING, manifest.name)
    with disk_errors(home, _PLACED):
        for root in ROOTS:
            if (staging / root).exists():
                (staging / root).rename(home / root)
        sync_disk(home)
        # In one step: a folder without its file would be taken for a restore that has copied nothing.
        done = home / SCRATCH / f"restored-{os.getpid()}"
        done.parent.mkdir(exist_ok=True)
        staging.rename(done)
        shutil.rmtree(done)


def _copy(source: BackupFolder, manifest: Manifest, staging: Path) -> None:
    """Copies every file, and compares its hash. Raises BrokenState BACKUP_DAMAGED."""
    for file in manifest.files:
        target = staging / file.path
        if not _has_size(target, file) or hash_of(target) != file.sha256:
            target.parent.mkdir(parents=True, exist_ok=True)
            sha256, _ = write_hashed(target, _content(source, file))
            if sha256 != file.sha256:
                source.read(manifest.name)  # raises BACKUP_MISSING: a backup that ran meanwhile has removed this one
                shutil.rmtree(staging)
                raise _damaged(source, manifest, file)
        os.utime(target, ns=(file.mtime_ns, file.mtime_ns))  # retentions go by it


def _content(source: BackupFolder, file: SavedFile) -> Iterator[bytes]:
    """Nothing for a missing one: then the hash is another one."""
    with disk_errors(source.path, f"{_UNTOUCHED}; what was copied is kept"), suppress(FileNotFoundError):
        yield from chunks_of(source.content_file(file.sha256))


def _check_format(staging: Path) -> None:
    """Raises BrokenState FORMAT_NEWER: a newer version has written the home that was backed up."""
    try:
        check_home(staging)
    except BrokenState:
        shutil.rmtree(staging)
        raise


def _remove_strangers(staging: Path, wanted: set[str]) -> None:
    """Removes what a killed restore of another backup has left, empty folders included."""
    for path in sorted(staging.rglob("*"), reverse=True):
        if path.is_dir():
            with suppress(OSError):
                path.rmdir()
        elif path.relative_to(staging).as_posix() not in wanted:
            path.unlink()


def _has_size(target: Path, file: SavedFile) -> bool:
    return target.is_file() and target.stat().st_size == file.size


def _is_placing(staging: Path, manifest: Manifest) -> bool:
    """Whether an earlier restore of this backup was killed while it moved files into place."""
    with suppress(FileNotFoundError):
        return (staging / _PLACING).read_text() == manifest.name
    return False


def _check_empty(home: Path) -> None:
    found = sorted(each.name for each in home.iterdir() if each.name not in MAY_STAY)
    if found:
        raise Conflict(
            "RESTORE_NOT_EMPTY",
            f"{home} is not empty: it holds {', '.join(found)}",
            state="nothing was restored or overwritten",
            next_step=f"move it away (mv {home} {home}.old) or choose another ANABRANCH_HOME. The folder kafka, the "
            "embedded broker's log, may come back before the restore",
            home=str(home),
            found=found,
        )


def _running(settings: Settings, what: str) -> Conflict:
    return Conflict(
        "RESTORE_RUNNING",
        f"{what} runs in {settings.home}",
        state="nothing was restored",
        next_step="wait for it, or anabranch down; then restore again",
    )


def _damaged(source: BackupFolder, manifest: Manifest, file: SavedFile) -> BrokenState:
    place = source.content_file(file.sha256)
    return BrokenState(
        "BACKUP_DAMAGED",
        f"backup {manifest.name}: {file.path} is missing or has other bytes ({place})",
        state=f"{_UNTOUCHED}; what was copied was deleted",
        next_step=f"anabranch backup verify {source.path} names whole ones; restore one of them by --backup NAME",
        damaged=[str(place)],
        backups=[manifest.name],
    )
