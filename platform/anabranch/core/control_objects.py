"""Small objects that several processes change: whoever was quicker wins, and the other one decides again.

Each state is a file with a number of its own that is made only if it isn't there: a compare-and-set, as an object store
offers it with a conditional put. Nothing is locked, so nothing waits for a process that was stopped. States are kept
until the object is removed: a number that was free again would let somebody through who has slept meanwhile.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_TRIES = 1_000


def current(path: Path) -> tuple[int, str | None]:
    """The number of the newest state of the object ``path``, and the state; 0 and None before the first. OSError."""
    number = max(_numbers(path), default=0)
    with suppress(FileNotFoundError):  # removed in between
        return (number, _state(path, number).read_text()) if number else (0, None)
    return 0, None


def put(path: Path, after: int, text: str) -> bool:
    """Make ``text`` the state behind number ``after``; False, and nothing was done, where that isn't the newest one. A
    kill leaves it made, or not made. After an error it is looked whether it was made all the same. OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.urandom(4).hex()}.{os.getpid()}")  # as ``files.drafts_left`` finds it
    state = _state(path, after + 1)
    try:
        draft.write_text(text)
        state.hardlink_to(draft)
    except OSError as error:
        if state.exists() and draft.exists() and state.samefile(draft):  # made, and the answer got lost
            return True
        if isinstance(error, FileExistsError):
            return False
        raise
    finally:
        draft.unlink(missing_ok=True)
    return True


def change(path: Path, made: Callable[[str | None], str]) -> str:
    """Replace the state by what ``made`` gives for it; it is asked again where somebody else was quicker. OSError."""
    for _ in range(_TRIES):
        number, text = current(path)
        if put(path, number, wanted := made(text)):
            return wanted
    raise BlockingIOError(f"{path} changes all the time")


def remove(path: Path) -> None:
    """Delete all states."""
    for number in sorted(_numbers(path)):
        _state(path, number).unlink(missing_ok=True)


def _numbers(path: Path) -> list[int]:
    names = (entry.name for entry in path.parent.glob(f"{path.name}.*")) if path.parent.is_dir() else ()
    return [int(found) for name in names if (found := name.removeprefix(f"{path.name}.")).isdecimal()]


def _state(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")
