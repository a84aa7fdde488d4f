"""Chooses the files of a backup, while the platform runs: those of one consistent cut.

The order matters. What names a position of landing (routes, certificates) is chosen before landing, and what landing
refers to (contracts) after it. So whatever a backup names is in it. The other way round it could have a certificate of
epoch 12 with a landing that ends at 11; after a restore, another epoch 12 would land, and the certificate would vouch
for it.

A table is chosen as of one version: its commits up to it, and the data files of that version. None of these files ever
changes, so they are copied afterwards, while later versions are committed. Control files do change, so their content is
read at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISREG
from typing import Final
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable

from anabranch.compute.batch.manifest import days_text
from anabranch.compute.batch.publish import publications
from anabranch.core.errors import AnabranchError, BrokenState
from anabranch.core.settings import Settings
from anabranch.core.storage import storage_of
from anabranch.lake import latest_commit, open_table
from anabranch.lake.layout import TableRef, existing_tables
from anabranch.lake.log.archived_commits import ARCHIVE, LOG, log_files
from anabranch.operate.backup._manifest import SavedTable, identity

LEFT_OUT: Final = frozenset({"builds", "migrations", "replays", "spark.properties", "spark-few.properties"})
"""Control files that describe something that is not in a backup (staged files, running work) or is made again."""
_AFTER_LANDING: Final = frozenset({"contracts", "schemas"})
"""What landed rows name: read after them, so that nothing that they name is missing."""
_COMMIT = re.compile(r"\d{20}\.json")
_CHECKPOINT = re.compile(r"\d{20}\.checkpoint\.(.+\.)?parquet")


@dataclass(frozen=True, slots=True)
class ChosenFile:
    """A file of a backup. ``places``: where its content is or may be moved to. ``identity``: see
    ``_manifest.identity``; empty for a file that may change, whose ``content`` has been read."""

    path: str
    size: int
    mtime_ns: int
    places: tuple[Path, ...] = ()
    identity: str = ""
    content: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The files of one cut; ``published`` as in ``manifest.Manifest``."""

    tables: tuple[SavedTable, ...]
    published: dict[str, str] = field(hash=False)
    files: tuple[ChosenFile, ...] = field(repr=False)


def choose(settings: Settings) -> Chosen:
    """Raises BrokenState TABLE_UNREADABLE, FILES_MISSING or BACKUP_SOURCE, and FileNotFoundError if maintenance has
    deleted a file meanwhile: then choose again."""
    tables, files = list[SavedTable](), list[ChosenFile]()

    def take(*places: TableRef) -> None:
        for place in places:
            if found := _table(settings, place):
                tables.append(found[0])
                files.extend(found[1])

    published = _published(settings)
    take(*existing_tables(settings, "routes"))
    take(*existing_tables(settings, "certificates"))
    files += _control(settings, lambda name: name not in LEFT_OUT and name not in _AFTER_LANDING)
    take(*existing_tables(settings, "landing"))
    files += _control(settings, lambda name: name in _AFTER_LANDING)
    return Chosen(tuple(tables), published, tuple(files))


def _table(settings: Settings, place: TableRef) -> tuple[SavedTable, list[ChosenFile]] | None:
    """The table at its newest version; None if it is being created."""
    table = open_table(place.uri)
    if table is None:
        return None
    base, version = Path(place.uri), table.version()
    where, table_id = base.relative_to(settings.home).as_posix(), str(table.metadata().id)
    newest = latest_commit(table)
    covers = str(newest.note.cut) if newest is not None and newest.note.cut.positions else ""
    files = []
    for path, places in (*_log(base, version, split=place.kind == "landing"), *_data(table, base)):
        stat = next(found.stat() for found in places if found.exists() or found is places[-1])
        named = f"{where}/{path}"
        files.append(ChosenFile(named, stat.st_size, stat.st_mtime_ns, places, identity(table_id, named)))
    return SavedTable(where, table_id, version, covers), files


def _log(base: Path, version: int, *, split: bool) -> Iterator[tuple[str, tuple[Path, ...]]]:
    """Every kept commit up to ``version``: accepted losses, holes and reasons are in their metadata. Of the checkpoints
    the oldest, which the kept log begins with, and the two newest. With ``split``, older commits go into the archive,
    as landing would move them (ADR 0029)."""
    # Listed twice: a file that is moved between both folders meanwhile, in either direction, is seen once at least.
    found = {(at, path.name) for _ in range(2) for at, path in log_files(base) if at <= version}
    commits = sorted((at, name) for at, name in found if _COMMIT.fullmatch(name))
    checkpoints = sorted((at, name) for at, name in found if _CHECKPOINT.fullmatch(name))
    versions = sorted({at for at, _ in checkpoints})
    first = versions[-2] if split and len(versions) > 1 else 0
    kept = {*versions[:1], *versions[-2:]}
    for at, name in (*commits, *(each for each in checkpoints if each[0] in kept)):
        folders = (LOG, ARCHIVE, LOG)
        yield f"{ARCHIVE if at < first else LOG}/{name}", tuple(base / folder / name for folder in folders)


def _data(table: DeltaTable, base: Path) -> Iterator[tuple[str, tuple[Path, ...]]]:
    """The data files of the table's version. Raises BrokenState FILES_MISSING."""
    for spelt in pa.table(table.get_add_actions(flatten=True))["path"].to_pylist():
        path = next((name for name in (spelt, unquote(spelt)) if (base / name).exists()), None)
        if path is None:
            raise BrokenState(
                "FILES_MISSING",
                f"{base}: a data file is missing: {spelt}",
                state="no backup was added; a complete one is not affected",
                next_step="anabranch doctor says what else is wrong; restore an older backup, or put the file back",
                files=[str(base / spelt)],
            )
        yield path, (base / path,)


def _control(settings: Settings, wanted: Callable[[str], bool]) -> Iterator[ChosenFile]:
    """Small files that are written atomically, with their content. Drafts are left out."""
    control = settings.home / "control"
    for path in sorted(entry.path for entry in storage_of(control).entries(control)):
        below = path.relative_to(control)
        if not wanted(below.parts[0]) or path.name.startswith("."):
            continue
        with suppress(FileNotFoundError):  # deleted meanwhile
            stat = path.lstat()
            if not S_ISREG(stat.st_mode):
                continue
            content = _read(path)
            yield ChosenFile(f"control/{below.as_posix()}", len(content), stat.st_mtime_ns, content=content)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise source_error(path, error) from error


def _published(settings: Settings) -> dict[str, str]:
    """The published days of each batch half. One that can't be read is left out: it isn't in the backup anyway."""
    found = {}
    for place in existing_tables(settings, "batch"):
        with suppress(AnabranchError):
            if days := publications(place.uri):
                found[f"{place.name} v{place.version}"] = days_text(sorted(days))
    return found


def source_error(path: Path, error: OSError) -> BrokenState:
    return BrokenState(
        "BACKUP_SOURCE",
        f"{path} can't be read: {error}",
        state="no backup was added; a complete one is not affected",
        next_step="see to the disk of the home; anabranch doctor says whether more is wrong",
        file=str(path),
    )
