"""Optimistic concurrency: read a table, decide, commit right behind what was read, and decide again when that fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from anabranch.core.errors import Conflict, TryAgain

Made = TypeVar("Made")


def until_committed(writer: str, attempt: Callable[[], Made], tries: int = 5) -> Made:
    """What ``attempt`` gives: it reads the newest commit of a table, decides upon it and commits behind it.

    Where another writer was quicker (TABLE_MOVED) nothing was written, and it is called again. TryAgain TABLE_BUSY:
    another one was quicker ``tries`` times.
    """
    for _ in range(tries):
        try:
            return attempt()
        except Conflict as conflict:
            if conflict.code != "TABLE_MOVED":
                raise
            moved = conflict
    raise TryAgain(
        "TABLE_BUSY",
        f"{writer}: others commit faster, {tries} times",
        state="nothing of this was written",
        next_step="nothing is wrong: try it again in a moment",
        writer=writer,
    ) from moved
