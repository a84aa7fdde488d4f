"""Records a compaction's staged folders before it begins, so that they can be deleted after a kill."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from anabranch.core.control_file import ControlFile
from anabranch.core.errors import BrokenState
from anabranch.core.settings import Settings
from anabranch.core.storage import discard, listed, storage_of
from anabranch.lake import CommitMetadata, open_table
from anabranch.lake.files import BUILDS
from anabranch.lake.log.commit_log import changes
from anabranch.lake.log.rewrite_commits import MOVED
from anabranch.operate.maintenance._concurrent_files import size


@dataclass(frozen=True, slots=True)
class InProgress:
    """Folders of staged files of the table at ``uri``. A commit after ``version`` names them, or none does."""

    uri: str
    version: int
    builds: tuple[str, ...]

    @property
    def folders(self) -> list[Path]:
        return [Path(self.uri) / BUILDS / build for build in self.builds]


log = logging.getLogger(__name__)
JOURNAL: Final = ControlFile("record of a compaction", InProgress)


def begin(settings: Settings, work: InProgress) -> None:
    """Raises BrokenState COMPACTION_UNTIDY if there is still a record, which ``tidy`` couldn't read: it is not
    overwritten."""
    path = _path(settings)
    if storage_of(path).exists(path):
        raise BrokenState(
            "COMPACTION_UNTIDY",
            f"{path}: an earlier compaction has not been tidied up",
            state="nothing was merged or deleted in this table",
            next_step="make the file readable, and run maintenance again; or delete it: the vacuum finds its files",
            file=str(path),
        )
    JOURNAL.write(path, work)


def end(settings: Settings) -> None:
    path = _path(settings)
    storage_of(path).remove(path)


def in_progress(settings: Settings) -> InProgress | None:
    """Returns the work of the running compaction, or of one that was killed; None if there is none. Raises as
    ``ControlFile.read``."""
    return JOURNAL.read(_path(settings))


def tidy(settings: Settings) -> int:
    """Deletes what a killed compaction staged and didn't commit. Returns the bytes freed. Requires the maintenance
    lock. Raises OSError, and keeps the record, if that can't be read now.

    A record that is torn names nothing any more, so nothing is deleted for it, and it is removed: the vacuum deletes
    the files that it named when no commit has named them for seven days.
    """
    for draft in listed(_path(settings).parent, f".{_path(settings).name}.*"):
        storage_of(draft).remove(draft)
    freed, work = 0, None
    try:
        work = in_progress(settings)
    except ValueError as error:
        log.warning("%s is torn, so files that a killed compaction staged stay for a week: %s", _path(settings), error)
    if work is not None:
        named = named_builds(work)
        for folder in work.folders:
            if folder.name not in named:
                freed += size(folder)
                discard(folder)
    end(settings)
    return freed


def named_builds(work: InProgress) -> Sequence[str]:
    """Returns the folders that a commit names; all of them if the log no longer reaches back that far."""
    table = open_table(work.uri)
    named: list[str] = []
    for version in range(work.version + 1, table.version() + 1) if table is not None else ():
        try:
            note = CommitMetadata.from_text(changes(table, version).message) if table is not None else None
        except FileNotFoundError:
            return work.builds
        named += note.extra.get(MOVED, {}).get("builds", ()) if note is not None else ()
    return named


def _path(settings: Settings) -> Path:
    return settings.home / "maintenance" / "in-hand.json"
