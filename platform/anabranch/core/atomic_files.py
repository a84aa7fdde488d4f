"""Small files of one machine, written atomically so that several processes read them without a lock; and file locks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import psutil

from anabranch.core._file_locks import held_for_good, is_held, locked
from anabranch.core.storage import DISK

__all__ = ["ATOMIC_FOLDERS", "abandoned_drafts", "held_for_good", "is_held", "locked", "write_atomically"]

ATOMIC_FOLDERS: Final = ("control", "run", "secrets")
"""The folders of a home whose files are written with ``write_atomically``."""
_DRAFT = re.compile(r"\..+\.([0-9]+)(?:\.new)?")


def write_atomically(path: Path, text: str) -> Path:
    """Write ``path`` atomically (draft, then rename) and create its folders. Of two concurrent writes the later
    wins."""
    DISK.write(path, text.encode())
    return path


def abandoned_drafts(folder: Path) -> list[Path]:
    """Drafts below ``folder`` whose process was killed before it renamed them."""
    found = [(path, _DRAFT.fullmatch(path.name)) for path in sorted(folder.rglob(".*"))]
    return [path for path, draft in found if draft and path.is_file() and not _runs(int(draft[1]))]


def _runs(pid: int) -> bool:
    try:
        return psutil.pid_exists(pid)
    except OverflowError:  # no process: the draft of a secret by an older release ends with the number of a thread
        return False
