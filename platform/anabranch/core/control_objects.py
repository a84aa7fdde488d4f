"""Small objects that several processes change by compare-and-set: the first writer wins, the other one decides again.

Each state is a numbered file that is created only if it doesn't exist. There are no locks, so nothing waits for a
stopped process. States are kept until the object is removed: if a number became free again, a process that had slept
meanwhile could write an outdated state under it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from anabranch.core.storage import storage_of

_TRIES = 1_000
_LOOKS = 3


def current(path: Path) -> tuple[int, str | None]:
    """The number and the text of the newest state of ``path``; 0 and None before the first. Raises OSError, also if a
    state is listed that isn't there: that is no object without a state."""
    for left in reversed(range(_LOOKS)):
        number = max(_numbers(path), default=0)
        if not number:
            break
        try:
            return number, storage_of(path).read(_state(path, number)).decode()
        except FileNotFoundError:  # removed between the listing and the read: then the next list doesn't have it
            if not left:
                raise
    return 0, None


def put(path: Path, after: int, text: str) -> bool:
    """Write ``text`` as the state that follows number ``after``. Returns False, and does nothing, if ``after`` isn't
    the newest. A kill leaves the state written or not written, never torn. An error counts as success if the state was
    written all the same. Raises OSError."""
    return storage_of(path).create(_state(path, after + 1), text.encode())


def change(path: Path, update: Callable[[str | None], str]) -> str:
    """Replace the state with ``update(state)`` and return it; calls ``update`` again if another process was faster.
    Raises OSError."""
    for _ in range(_TRIES):
        number, text = current(path)
        if put(path, number, wanted := update(text)):
            return wanted
    raise BlockingIOError(f"{path} was changed by other processes at each of {_TRIES} tries")


def remove(path: Path) -> None:
    """Delete all states."""
    for number in sorted(_numbers(path)):
        storage_of(path).remove(_state(path, number))


def _numbers(path: Path) -> list[int]:
    first = f"{path.name}."
    names = (name.removeprefix(first) for name in storage_of(path).names(path.parent) if name.startswith(first))
    return [int(number) for number in names if number.isdecimal()]


def _state(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")
