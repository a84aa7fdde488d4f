"""The error of a stream whose micro-batch failed, by what its table says: not in, in, or not known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from anabranch.core.errors import BrokenState, root_cause


@dataclass(frozen=True, slots=True)
class BatchFailure:
    """What failed: ``who`` (a stream, as its errors name it), the number of its ``batch``, and the ``error``.

    The three errors that can be made of it are all BATCH_FAILED; ``fields`` are those that programs read.
    """

    who: str
    batch: int
    error: BaseException

    def before_commit(self, state: str, next_step: str, alone: str = "", **fields: Any) -> BrokenState:
        """Its commit isn't in. ``alone``: more of the cause."""
        return self._as(f"in batch {self.batch}", alone, state, next_step, fields)

    def behind_commit(self, state: str, again: str, **fields: Any) -> BrokenState:
        """Its commit is in; ``again``: what happens by itself."""
        return self._as(f"behind the commit of batch {self.batch}", "", state, f"nothing: {again}", fields)

    def unknown(self, what: str, unread: Exception, again: str, **fields: Any) -> BrokenState:
        """The table can't say whether ``what`` is."""
        state = f"it isn't known whether {what}: {root_cause(unread)}"
        return self._as(f"in batch {self.batch}", "", state, f"fix the cause; {again}", fields)

    def _as(self, where: str, more: str, state: str, next_step: str, fields: dict[str, Any]) -> BrokenState:
        what = f"{self.who} failed {where}: {root_cause(self.error)}{more}"
        return BrokenState("BATCH_FAILED", what, state=state, next_step=next_step, batch=self.batch, **fields)
