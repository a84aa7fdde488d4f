"""What a check says: something is wrong, here, and this is the next command."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anabranch.operate.doctor.context import Context


class Severity(StrEnum):
    BROKEN = "broken"
    """An invariant does not hold: readers or writers are, or will be, told something wrong."""
    DOUBTFUL = "doubtful"
    """No row is wrong by it; somebody should look, or tidy up."""


@dataclass(frozen=True, slots=True)
class Finding:
    """``code`` is stable. ``where`` names the table, the file or the record; ``next_step`` is the command that mends
    it, or the first one on the way to that. ``check`` is who found it."""

    code: str
    where: str
    what: str
    next_step: str
    severity: Severity = Severity.BROKEN
    check: str = ""

    def __post_init__(self) -> None:
        if not (self.code and self.where and self.what and self.next_step):
            raise ValueError(f"a finding says what, where and what next: {self}")

    @property
    def same(self) -> tuple[str, str]:
        """What two looks at one defect have in common, however many rows it has by then."""
        return self.code, self.where

    def __str__(self) -> str:
        return f"{self.severity}: {self.what} [{self.code}]\n  where: {self.where}\n  next:  {self.next_step}"

    def to_json(self) -> dict[str, str]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Check:
    """One idea that is looked at. ``look`` reads only, is called once or twice, and may raise: that is a finding, too.

    This is the seam for what has to be computed (equal cut, equal rows): a check that is given a Spark session when it
    is made stands beside these.
    """

    name: str
    look: Callable[[Context], Iterator[Finding]]


def failed(where: str, error: Exception) -> Finding:
    """A check that could not come to its end: what it looked at can't be read."""
    kind = getattr(error, "code", type(error).__name__)
    what = f"it can't be read: {str(error).splitlines()[0] if str(error) else kind} ({kind})"
    return Finding(
        "CHECK_FAILED", where, what, getattr(error, "next_step", "") or "restore it from a copy, then anabranch doctor"
    )
