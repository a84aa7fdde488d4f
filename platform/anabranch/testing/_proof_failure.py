"""The exception of a failed proof: an AnabranchError with code and fields, and an AssertionError for pytest."""

from __future__ import annotations

from typing import Any

from anabranch.core.errors import BadDefinition


class ProofFailed(BadDefinition, AssertionError):
    """The two paths would disagree on the view, or it fails for events that its contracts allow.

    ``code`` is one of ``anabranch.testing._counterexample``, or the code of the static check. ``fields`` hold the view,
    its version, the seed, the number of events after shrinking, the replay file and the finding itself. ``story`` is
    the report that follows the error's own lines.
    """

    def __init__(
        self, code: str, what: str, *, state: str = "", next_step: str = "", story: str = "", **fields: Any
    ) -> None:
        self.story = story
        super().__init__(code, what, state=state, next_step=next_step, **fields)

    def __str__(self) -> str:
        return f"{super().__str__()}\n{self.story}".rstrip()
