"""Optimistic concurrency: read a table, decide, commit right after what was read; if that fails, do all of it again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from anabranch.core.errors import Conflict, TryAgain

Result = TypeVar("Result")


def until_committed(writer: str, attempt: Callable[[], Result], tries: int = 5) -> Result:
    """Returns the result of ``attempt``, which reads a table's newest commit, decides, and commits right after it.

    Calls ``attempt`` again if another writer was faster (TABLE_MOVED): nothing was written then. Raises TryAgain
    TABLE_BUSY if that happens ``tries`` times.
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
        f"{writer}: another writer was faster in each of {tries} tries",
        state="nothing of this was written",
        next_step="nothing is wrong: try again in a moment",
        writer=writer,
    ) from moved
