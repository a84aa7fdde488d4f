"""Small files of one machine, written atomically so that several processes read them without a lock; and file locks."""

from __future__ import annotations

import fcntl
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil

from anabranch.core.storage import DISK

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
    return [path for path, draft in found if draft and path.is_file() and not psutil.pid_exists(int(draft[1]))]


@contextmanager
def locked(path: Path, *, shared: bool = False, wait: bool = False, refusal: Exception | None = None) -> Iterator[None]:
    """Hold the file lock ``path``, exclusively or ``shared``; the lock ends with the process. Raises ``refusal``
    (default: BlockingIOError) when another process holds it, unless ``wait`` is set."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            if refusal is None:
                raise
            raise refusal from None
        yield
