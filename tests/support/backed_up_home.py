"""A small platform that has everything that a backup holds, and what must be the same of it after a restore."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anabranch.certify.certificates import certificate_rows
from anabranch.core.settings import Settings
from anabranch.lake import commit_history
from anabranch.lake.layout import landing_table
from anabranch.operate.backup._backup_folder import BackupFolder
from anabranch.serve._named_readers import record_reader
from anabranch.serve.routes import route_history, set_route

from support.landed_sample import FLIGHTS
from support.maintained_platform import busy, rows
from support.small_platform import DAYS, NAME, Clinic, departed

MADE_AGAIN = ("builds", "replays", "migrations")
"""Folders of ``control`` that are not in a backup."""


def furnished(home: Path, epochs: int = 3) -> Clinic:
    """Landing with quarantined, released, lost and empty offsets; published days, certificates, a route, a reader."""
    clinic = busy(home, epochs)
    clinic.reprocess("published", DAYS[:2])
    set_route(clinic.settings, NAME, {1: 100}, by="anna", why="the first one")
    record_reader(clinic.handle(), f"dashboard of {home}")
    clinic.land([departed(100, broken=True)])
    clinic.release()
    clinic.lose(1, 2)
    clinic.hole(2, 3)
    return clinic


def kept(settings: Settings) -> dict[str, Any]:
    """All that can't be made again, by what readers and writers see of it."""
    landing, control = landing_table(settings, FLIGHTS.name), settings.home / "control"
    files = {p.relative_to(control).as_posix(): p.read_bytes() for p in sorted(control.rglob("*")) if p.is_file()}
    return {
        "landing": rows(landing),
        "commits": [(commit.version, commit.note, commit.commit_time_ms) for commit in commit_history(landing)],
        "routes": route_history(settings, NAME),
        "certificates": certificate_rows(settings),
        "control": {name: text for name, text in files.items() if name.partition("/")[0] not in MADE_AGAIN},
    }


def objects(folder: Path) -> set[str]:
    return {path.name for path in (folder / "objects").rglob("*") if path.is_file()}


def needed(folder: Path) -> set[str]:
    """What the backups of a folder name."""
    place = BackupFolder(folder)
    return {file.sha256 for name in place.names() for file in place.read(name).files}
