"""A failed proof: an error of the house with its code and fields, an AssertionError for pytest, a story for people."""

from __future__ import annotations

from typing import Any

from anabranch.core.errors import BadDefinition


class ProofFailed(BadDefinition, AssertionError):
    """A view that the two paths would disagree on, or that fails on events which its contracts allow.

    ``code`` is one of ``anabranch.testing.counterexample``, or the code of the static check. ``fields`` hold the view,
    its version, the seed, the number of events left, the file that replays it and the finding itself. ``story`` is
    shown behind the error's own lines.
    """

    def __init__(
        self, code: str, what: str, *, state: str = "", next_step: str = "", story: str = "", **fields: Any
    ) -> None:
        self.story = story
        super().__init__(code, what, state=state, next_step=next_step, **fields)

    def __str__(self) -> str:
        return f"{super().__str__()}\n{self.story}".rstrip()
