"""What in a home is older than this version of the package, and what an upgrade would do about it. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from anabranch.certify.certificates import table_format as certificates_format
from anabranch.contracts.model.declarations import Declarations
from anabranch.core.errors import AnabranchError
from anabranch.core.home_format import HOME, is_marked
from anabranch.core.settings import Settings
from anabranch.ingest.landing.table.schema_growth import table_format as landing_format
from anabranch.lake import commit_history, open_table
from anabranch.lake.layout import certificates_table
from anabranch.lake.streams.stream_checkpoint import CHECKPOINT, check_format, has_format
from anabranch.operate.jobs import is_former_copy
from anabranch.operate.runtime.unpassed_variables import unpassed_notices
from anabranch.operate.upgrade._places import CERTIFICATES, FORMATS, LANDING, control_files


@dataclass(frozen=True, slots=True)
class Change:
    """One thing on disk, from the format that it has to the newest. ``path`` is below the home. ``by_itself``: what
    does the same without an upgrade, and when; ``done`` by an upgrade only if ``refused`` is empty."""

    kind: str
    path: str
    old: int
    new: int
    does: str
    by_itself: str
    reversible: str
    refused: str = ""

    def __str__(self) -> str:
        what = f"{self.path}: {self.kind}, format {self.old} -> {self.new}"
        if self.refused:
            return f"{what}\n  left as it is: {self.refused}"
        return f"{what}\n  {self.does}\n  without an upgrade: {self.by_itself}; back: {self.reversible}"


@dataclass(frozen=True, slots=True)
class Plan:
    """What an upgrade of a home does, in the order in which it is done. ``notes``: what a person should do."""

    changes: tuple[Change, ...]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        nothing = () if self.changes else ("everything has the newest format: there is nothing to do",)
        return "\n".join([*map(str, self.changes), *nothing, *self.notes])

    def to_json(self) -> dict[str, Any]:
        return {"changes": [asdict(change) for change in self.changes], "notes": list(self.notes)}


_PROGRAMS = ("landing", "speed", "rebuild", "reconcile", "replay")
_OURS = "anabranch.operate.jobs"
_REWRITES = "rewrites the file as this version does; what it says stays"
_FILES_BACK = "a version that doesn't know the new format refuses the file: restore a backup"
_ADDITIVE = "not needed: versions that don't know it pass over it"


def plan_upgrade(settings: Settings, declared: Declarations) -> Plan:
    """Raises BrokenState FORMAT_NEWER if anything has a newer format than this version knows, TABLE_UNREADABLE and
    CHECKPOINT_UNREADABLE. A control file that can't be read is listed as one that is left as it is."""
    marked, found = is_marked(settings.home), list(_files(settings))
    found += [*_tables(settings, declared), *_checkpoints(settings)]
    if not marked and (found or settings.lake.exists()):
        does = "writes control/home.json, so that versions with another layout of the home refuse it"
        found.append(
            Change(HOME.kind, "control/home.json", 0, HOME.format, does, "anabranch up, when it starts", _ADDITIVE)
        )
    notes = (*_old_programs(settings.project / "spark_jobs"), *unpassed_notices(settings))
    return Plan(tuple(found), notes)


def _old_programs(folder: Path) -> Iterator[str]:
    """Of the programs that older projects had copies of, those that an older version has written."""
    for name in _PROGRAMS:
        file = folder / f"{name}.py"
        if not file.exists() or _OURS in file.read_text(errors="replace"):
            continue
        if is_former_copy(file):
            yield f"spark_jobs/{file.name} is a copy from an older version, which isn't run any more: delete it"
        else:
            yield (
                f"spark_jobs/{file.name} runs in place of the package's own program, and was written for an older "
                "version, whose functions may be gone: delete it, or start it anew from the package's"
            )


def _files(settings: Settings) -> Iterator[Change]:
    for path, place in control_files(settings.home):
        by_itself = "each read understands it; written when it changes"
        old, refused = 1, ""
        try:
            if (stored := place.file.stored_format(settings.home / path)) is None:
                continue
            old = stored
            place.file.read(settings.home / path)
        except (OSError, ValueError) as error:
            refused = f"it can't be read: {error}".splitlines()[0]
        except AnabranchError as error:
            if error.code == "FORMAT_NEWER":
                raise
            refused = f"it can't be read: {error.what}"
        if refused or old < place.file.format or path.endswith(".wish.json"):
            yield Change(place.file.kind, path, old, place.file.format, _REWRITES, by_itself, _FILES_BACK, refused)


def _tables(settings: Settings, declared: Declarations) -> Iterator[Change]:
    lake = settings.lake
    for log in sorted(lake.rglob("_delta_log")):
        for _ in commit_history(str(log.parent), 1):  # raises FORMAT_NEWER
            break
    for folder in sorted((lake / "landing").glob("*/_delta_log")):
        table, name = open_table(str(folder.parent)), folder.parent.name
        if table is None or (old := landing_format(table)) >= FORMATS[LANDING]:
            continue
        topic = declared.topics.get(name)
        yield Change(
            LANDING,
            f"lake/landing/{name}",
            old,
            FORMATS[LANDING],
            "adds the columns that are missing, with nulls for what has landed, and names the columns with statistics: "
            "two small commits, no file is written again",
            "landing does it when it starts",
            _ADDITIVE,
            "" if topic else "its topic is no longer declared",
        )
    uri = certificates_table(settings)
    table = open_table(uri)
    if table is not None and (old := certificates_format(pa.schema(table.schema().to_arrow()))) < FORMATS[CERTIFICATES]:
        yield Change(
            CERTIFICATES,
            "lake/certificates",
            old,
            FORMATS[CERTIFICATES],
            "adds the column sequence: one small commit",
            "the next certificate does it",
            _ADDITIVE,
        )


def checkpoints(settings: Settings) -> Iterator[Path]:
    """The checkpoints of all streams, replays included. A live one may be a link to a replay's."""
    patterns = ("landing/*", "speed/*/v*", "replay/*/v*/*")
    for pattern in patterns:
        for folder in sorted(settings.checkpoints.glob(pattern)):
            if (folder / "metadata").exists() and not folder.is_symlink():
                yield folder


def _checkpoints(settings: Settings) -> Iterator[Change]:
    for folder in checkpoints(settings):
        check_format(folder)
        if not has_format(folder):
            path = folder.relative_to(settings.home).as_posix()
            does = "writes anabranch.json next to Spark's files; the stream continues where it was"
            by_itself = "the stream does it when it starts"
            yield Change(CHECKPOINT.kind, path, 0, CHECKPOINT.format, does, by_itself, _ADDITIVE)
