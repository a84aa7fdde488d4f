"""Files that are whole or not there, what several processes write and read without a lock; and locks for the rest."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil

WRITTEN: Final = ("control", "run", "secrets")
"""The folders of a home in which files are written whole."""
_DRAFT = re.compile(r"\..+\.([0-9]+)(?:\.new)?")


def write_atomically(path: Path, text: str) -> Path:
    """Give ``path`` this content in one step; its folders are made. Of two at once the later one stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(text)
    return draft.replace(path)


def drafts_left(folder: Path) -> list[Path]:
    """Drafts below ``folder`` of processes that live no more: killed before they gave them their names."""
    found = [(path, _DRAFT.fullmatch(path.name)) for path in sorted(folder.rglob(".*"))]
    return [path for path, draft in found if draft and path.is_file() and not psutil.pid_exists(int(draft[1]))]


@contextmanager
def locked(path: Path, *, shared: bool = False, wait: bool = False) -> Iterator[None]:
    """Hold the lock ``path``, alone or with others that hold it ``shared``; it goes with the process. BlockingIOError
    where somebody else has it, unless it is to ``wait``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
        yield
