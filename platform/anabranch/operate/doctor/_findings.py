"""A check and its findings: what is wrong, where, and the next command."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anabranch.operate.doctor._context import Context


class Severity(StrEnum):
    BROKEN = "broken"
    """An invariant is violated: readers or writers get, or will get, wrong data."""
    DOUBTFUL = "doubtful"
    """No row is wrong because of it; a person should look, or clean up."""


@dataclass(frozen=True, slots=True)
class Finding:
    """``code`` is stable. ``where`` names the table, the file or the record. ``next_step`` is the command that fixes
    it, or the first of several. ``check`` is the name of the check."""

    code: str
    where: str
    what: str
    next_step: str
    severity: Severity = Severity.BROKEN
    check: str = ""

    def __post_init__(self) -> None:
        if not (self.code and self.where and self.what and self.next_step):
            raise ValueError(f"a finding needs code, where, what and next_step: {self}")

    @property
    def same(self) -> tuple[str, str]:
        """Identifies a defect across two passes, even if its number of rows changes."""
        return self.code, self.where

    def __str__(self) -> str:
        return f"{self.severity}: {self.what} [{self.code}]\n  where: {self.where}\n  next:  {self.next_step}"

    def to_json(self) -> dict[str, str]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Check:
    """One check. ``run`` reads only, is called once or twice, and may raise, which becomes a finding.

    Checks that need Spark (equal cut, equal rows) get their session when they are created, and run like the others.
    """

    name: str
    run: Callable[[Context], Iterator[Finding]]


def failed(where: str, error: Exception) -> Finding:
    """The finding for a check that failed because something can't be read."""
    kind = getattr(error, "code", type(error).__name__)
    what = f"it can't be read: {str(error).splitlines()[0] if str(error) else kind} ({kind})"
    return Finding(
        "CHECK_FAILED",
        where,
        what,
        getattr(error, "next_step", "") or "restore it from a backup, then run anabranch doctor again",
    )
