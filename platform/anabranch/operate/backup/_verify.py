"""Reads every file of the backups in a folder again, and compares its hash."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anabranch.core.errors import BadInput, BrokenState
from anabranch.operate.backup._backup_folder import BackupFolder, missing, open_folder
from anabranch.operate.backup._hashed_files import hash_of
from anabranch.operate.backup._manifest import Manifest

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Verified:
    """Every hash was right. ``files``: how many different contents were read."""

    backups: tuple[str, ...]
    files: int
    size: int

    def __str__(self) -> str:
        names = ", ".join(self.backups)
        return f"{self.files:,} files ({self.size / 1e6:,.2f} MB), every hash is right: {names}"

    def to_json(self) -> dict[str, Any]:
        return {"backups": list(self.backups), "files": self.files, "bytes": self.size}


def verify_backups(folder: Path, name: str | None = None) -> Verified:
    """Read all backups of ``folder`` (or the one called ``name``) and compare every hash. Writes nothing.

    Raises BrokenState BACKUP_DAMAGED, which names each damaged file and the backups that are whole; BadInput
    BACKUP_MISSING or BACKUP_FORMAT.
    """
    place = open_folder(folder)
    names = [name] if name else place.names()
    if not names:
        raise missing(place.path, "no complete backup")
    whole, torn = list[Manifest](), list[str]()
    for each in names:
        try:
            whole.append(place.read(each))
        except BrokenState as error:
            torn += error.fields["damaged"]
        except BadInput as gone:
            if name or gone.code != "BACKUP_MISSING":
                raise
    checked = {file.sha256: (file.size, file.path) for manifest in whole for file in manifest.files}
    with place.disk():
        wrong = {sha256: path for sha256, (_, path) in checked.items() if not _is_right(place, sha256)}
    if wrong:
        whole = _still_there(place, whole, name)
        needed = {file.sha256 for manifest in whole for file in manifest.files}
        wrong = {sha256: path for sha256, path in wrong.items() if sha256 in needed}
    if wrong or torn:
        raise _damaged(place, whole, wrong, torn)
    return Verified(tuple(manifest.name for manifest in whole), len(checked), sum(size for size, _ in checked.values()))


def _still_there(place: BackupFolder, manifests: list[Manifest], name: str | None) -> list[Manifest]:
    """Those that a backup which ran meanwhile hasn't removed (``--keep``). Raises BadInput BACKUP_MISSING if ``name``
    is one of them."""
    if name:
        place.read(name)
    left = set(place.names())
    return [manifest for manifest in manifests if manifest.name in left]


def _is_right(place: BackupFolder, sha256: str) -> bool:
    try:
        return hash_of(place.content_file(sha256)) == sha256
    except OSError:  # it is missing, or its disk can't read it; the others may be whole
        return False


def _damaged(place: BackupFolder, whole: list[Manifest], wrong: dict[str, str], torn: list[str]) -> BrokenState:
    hurt = defaultdict[str, int](int)
    for manifest in whole:
        for file in manifest.files:
            hurt[manifest.name] += file.sha256 in wrong
    sound = [name for name, count in hurt.items() if not count]
    objects = [str(place.content_file(sha256)) for sha256 in wrong]
    named = [*torn, *(f"{path} ({place.content_file(sha256)})" for sha256, path in wrong.items())]
    more = f" and {len(named) - _SHOWN:,} more" if len(named) > _SHOWN else ""
    there = [path for path in (*torn, *objects) if Path(path).exists()]
    removal = f"rm {' '.join(there[:_SHOWN])}{' ...' if len(there) > _SHOWN else ''}; " if there else ""
    shown = f"{', '.join(named[:_SHOWN])}{more}"
    return BrokenState(
        "BACKUP_DAMAGED",
        f"{place.path}: {len(named):,} files are missing, unreadable or have other bytes: {shown}",
        state=f"whole: {', '.join(sound) or 'no backup'}; nothing was changed",
        next_step=f"{removal}anabranch backup create {place.path} copies again what the home still has; then verify. "
        "Check the disk: dmesg, smartctl",
        damaged=[*torn, *objects],
        backups=[name for name, count in hurt.items() if count],
        whole=sound,
    )
