"""A failed property as data (the log, what was done with it, and the rows of both sides), and the exception that says
it: an AnabranchError with code and fields, and an AssertionError for pytest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from anabranch.core.errors import BadDefinition
from anabranch.testing._rows import Difference, Row, differences, equal
from anabranch.testing._scenario import Log

if TYPE_CHECKING:
    from anabranch.views import View

FAILS: Final = "PROOF_FAILS"
KEY: Final = "PROOF_KEY"
PARTITION_NULL: Final = "PROOF_PARTITION_NULL"
ORACLE: Final = "PROOF_ORACLE"
PRUNED: Final = "PROOF_PRUNED"
LOOKBACK: Final = "PROOF_LOOKBACK"
LOOKAHEAD: Final = "PROOF_LOOKAHEAD"
FAR: Final = "PROOF_FAR"
MIXED: Final = "PROOF_MIXED"
IMPURE: Final = "PROOF_IMPURE"
ORDER: Final = "PROOF_ORDER"
SPREAD: Final = "PROOF_SPREAD"
TIME_ZONE: Final = "PROOF_TIME_ZONE"
SPEED: Final = "PROOF_SPEED"
STREAM: Final = "PROOF_STREAM"
BATCH: Final = "PROOF_BATCH"
REBUILD: Final = "PROOF_REBUILD"
PATHS: Final = "PROOF_PATHS"
EMPTY: Final = "PROOF_EMPTY"
"""Not found in a log: no log gave a row."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of two results that should be equal."""

    name: str
    rows: Sequence[Row]


@dataclass(frozen=True, slots=True)
class Finding:
    """One way in which a log proves a view wrong. ``error``: the exception that was raised instead of rows, if any."""

    code: str
    log: Log
    left: Side | None = None
    right: Side | None = None
    differs: tuple[Difference, ...] = ()
    error: BaseException | None = None
    fields: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


def unequal(
    code: str, view: View, log: Log, left: Side, right: Side, columns: Sequence[str] | None = None, **fields: Any
) -> Finding | None:
    """Returns a finding if the two sides differ, None if they hold the same rows in any order."""
    named = columns or list(dict.fromkeys(c for row in [*left.rows, *right.rows] for c in row))
    if equal(left.rows, right.rows, named):
        return None
    found = differences(left.rows, right.rows, view.key, named)
    return Finding(code, log, left, right, found, fields=fields)


class ProofFailed(BadDefinition, AssertionError):
    """The two paths would disagree on the view, or it fails for events that its contracts allow.

    ``code`` is one of this module, or the code of the static check. ``fields`` hold the view,
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
