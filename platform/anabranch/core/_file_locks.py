"""Locks of one machine. The kernel releases them when a process ends; a process that is stopped keeps them, so the one
that needs the lock ends it after a stated time (ADR 50)."""

from __future__ import annotations

import fcntl
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from anabranch.core._lock_holders import Holders, noted
from anabranch.core.errors import AnabranchError, TryAgain

_FIRST, _RETRY = 0.01, 0.5
"""Seconds between two tries: at first, doubled up to."""
_LOOK, _RARELY = 0.5, 5.0
"""Seconds between two looks at the holders, which read what every process has open: at first, doubled up to."""
_UNSEEN: Final = "a process that can't be seen"
LOGGER = logging.getLogger(__name__)


@contextmanager
def locked(path: Path, *, shared: bool = False, wait: float = 0.0, refusal: Exception | None = None) -> Iterator[None]:
    """Hold the file lock ``path``, exclusively or ``shared``; the lock ends with the process.

    ``wait``: seconds to wait for processes that hold it; after that raises ``refusal``, with their names, or TryAgain
    LOCK_HELD. A holder that is stopped (SIGSTOP) for ``STOPPED_SECONDS`` is killed with its engine, however short
    ``wait`` is: its successor continues as after any kill. With neither ``wait`` nor ``refusal`` it is only a question:
    BlockingIOError at once.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        if not wait and refusal is None:
            fcntl.flock(file, _mode(shared) | fcntl.LOCK_NB)
            yield
            return
        _wait_for(file.fileno(), path, shared, wait, refusal)
        with noted(path, alone=not shared):
            yield


def is_held(path: Path) -> bool:
    """Whether a process holds the lock ``path`` now, in whichever container. A free one is taken for a moment, which
    who takes it with ``refusal`` or ``wait`` survives: that one tries again. One that can't be asked counts as held."""
    try:
        file = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        return not _taken(file, shared=False)
    except OSError:
        return True
    finally:
        os.close(file)


def held_for_good(path: Path, wait: float) -> int:
    """A file descriptor that holds the lock ``path``, in a folder that exists, until it is closed: with this process.
    Waits as ``locked`` does, but leaves no note."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        _wait_for(file, path, shared=False, wait=wait, refusal=None)
    except BaseException:
        os.close(file)
        raise
    return file


def _wait_for(file: int, path: Path, shared: bool, wait: float, refusal: Exception | None) -> None:
    began, pause, holders, is_said = time.monotonic(), _FIRST, Holders(path, file), False
    next_look, gap = began, _LOOK
    while not _taken(file, shared):
        now = time.monotonic()
        is_late = now - began >= wait
        if is_late or (pause >= _RETRY and now >= next_look):
            pause, next_look, gap = _RETRY, now + gap, min(_RARELY, gap * 2)
            if not holders.look() and is_late:
                if _taken(file, shared):  # released during the look
                    return
                raise _named(refusal, path, holders.named(), wait) from None
            if not is_said:
                LOGGER.info("waiting for the lock %s: it is held by %s", path.name, holders.named())
                is_said = True
        time.sleep(pause)
        pause = min(_RETRY, pause * 2)


def _taken(file: int, shared: bool) -> bool:
    try:
        fcntl.flock(file, _mode(shared) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _mode(shared: bool) -> int:
    return fcntl.LOCK_SH if shared else fcntl.LOCK_EX


def _named(refusal: Exception | None, path: Path, by: str, wait: float) -> Exception:
    there = "; if that one is stopped or hangs, end it where it runs" if by.startswith(_UNSEEN) else ""
    if refusal is None:
        return TryAgain(
            "LOCK_HELD",
            f"the lock {path.name} was not free for {wait:.0f} s: it is held by {by}",
            state="this one has begun nothing",
            next_step=f"wait until that process has ended, then repeat this; if it hangs, end it{there}",
            lock=str(path),
        )
    if isinstance(refusal, AnabranchError):
        refusal.what = f"{refusal.what}; the lock is held by {by}"
        refusal.next_step = f"{refusal.next_step}{there}"
    return refusal
