"""The manifest of a backup: every file with its hash. It is written last, so a backup that has one is complete."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any, Final

from anabranch.core.formats import WRITTEN_BY, package_version
from anabranch.lake.log.archived_commits import ARCHIVE, LOG

FORMAT: Final = 1
"""The format of a backup folder and its manifests. A newer one is refused (BACKUP_FORMAT)."""
ROOTS: Final = ("control", "lake")
"""The folders of a home that a backup has files of, in the order in which a restore moves them into place."""
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class SavedFile:
    """One file of a backup. ``path`` is relative to the home, ``sha256`` the hash of its content."""

    path: str
    size: int
    mtime_ns: int
    sha256: str


@dataclass(frozen=True, slots=True)
class SavedTable:
    """One Delta table of a backup, as of ``version``. ``path`` is relative to the home, ``table_id`` is
    Delta's. ``covers``: the cut of its newest commit as text, empty if it has none."""

    path: str
    table_id: str
    version: int
    covers: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """A complete backup. ``number`` orders the backups of a folder: clocks can be set back. ``published``: the days of
    each view version's batch half, which is not in the backup (``{"departure_delays v1": "2013-01-01..2013-01-31"}``).
    """

    number: int
    created: datetime
    tables: tuple[SavedTable, ...]
    published: Mapping[str, str] = field(hash=False)
    files: tuple[SavedFile, ...] = field(repr=False)

    @property
    def name(self) -> str:
        return f"{self.number:06d}-{self.created:%Y%m%dT%H%M%SZ}"

    @property
    def size(self) -> int:
        """In bytes."""
        return sum(file.size for file in self.files)

    @property
    def landing(self) -> tuple[SavedTable, ...]:
        return tuple(table for table in self.tables if table.path.startswith("lake/landing/"))

    @property
    def covers(self) -> tuple[str, ...]:
        """The cuts of the landing tables."""
        return tuple(table.covers for table in self.landing)

    def published_days(self) -> Iterator[tuple[str, str, str]]:
        """Yields view, version and days (``FIRST..LAST``, or one day) of each range that was published."""
        for named, days in sorted(self.published.items()):
            view, _, version = named.partition(" v")
            yield from ((view, version, part) for part in days.split(","))

    def by_identity(self) -> dict[str, SavedFile]:
        """The files that never get another content, by ``identity``."""
        folders = {table.path: table.table_id for table in self.tables}
        return {identity(folders[folder], file.path): file for file in self.files if (folder := _table_of(file.path))}

    def to_json(self) -> dict[str, Any]:
        """What the command line prints: all but the files."""
        counted = {"files": len(self.files), "bytes": self.size}
        tables = [asdict(table) for table in self.tables]
        about = {"name": self.name, "number": self.number, "created": self.created.isoformat()}
        return {**about, "tables": tables, "published": dict(self.published), **counted}

    def to_bytes(self) -> bytes:
        """Compressed lines of JSON: what it is, each file, and the hash of all lines before the last one."""
        head = {"format": FORMAT, WRITTEN_BY: package_version(), **self.to_json()}
        lines = [json.dumps(head), *(json.dumps([f.path, f.size, f.mtime_ns, f.sha256]) for f in self.files)]
        body = "".join(f"{line}\n" for line in lines).encode()
        end = json.dumps({"sha256": hashlib.sha256(body).hexdigest()}).encode()
        return gzip.compress(body + end + b"\n", mtime=0)

    @staticmethod
    def from_bytes(content: bytes) -> Manifest:
        """Raises NewerFormat, or ValueError if it isn't what ``to_bytes`` has made."""
        try:
            lines = gzip.decompress(content).splitlines(keepends=True)
            head, end = json.loads(lines[0]), json.loads(lines[-1])
            if head["format"] > FORMAT:
                raise NewerFormat(head["format"], head.get(WRITTEN_BY, ""))
            if end["sha256"] != hashlib.sha256(b"".join(lines[:-1])).hexdigest():
                raise ValueError("its hash differs from its content")
            files = tuple(SavedFile(*json.loads(line)) for line in lines[1:-1])
            for file in files:
                _check(file)
            tables = tuple(SavedTable(**table) for table in head["tables"])
            created = datetime.fromisoformat(head["created"]).astimezone(UTC)
            return Manifest(head["number"], created, tables, head["published"], files)
        except (OSError, EOFError, KeyError, IndexError, TypeError, zlib.error) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error


class NewerFormat(Exception):
    """The manifest has a format that this version of the package doesn't know; its arguments are the format, and the
    version of the package that wrote it."""


def identity(table_id: str, path: str) -> str:
    """The same for a file wherever its table's log is split: a commit may move between the log and its archive."""
    folder, name = _table_of(path), PurePosixPath(path).name
    in_log = PurePosixPath(path).parent.name in (LOG, ARCHIVE)
    return f"{table_id}/{name if in_log else path.removeprefix(f'{folder}/')}"


def _table_of(path: str) -> str:
    """The folder of the table that a file belongs to; "" for a control file."""
    parts = PurePosixPath(path).parts
    depth = {"landing": 3, "routes": 3, "certificates": 2}.get(parts[1], 0) if parts[0] == "lake" else 0
    return "/".join(parts[:depth])


def _check(file: SavedFile) -> None:
    """Raises ValueError: no path of a manifest may lead out of the home."""
    parts = PurePosixPath(file.path).parts
    if len(parts) < 2 or parts[0] not in ROOTS or ".." in parts or "\x00" in file.path:
        raise ValueError(f"{file.path!r} is no file of a home")
    if not _SHA256.fullmatch(file.sha256) or file.size < 0:
        raise ValueError(f"{file.path}: its hash or its size can't be right")
