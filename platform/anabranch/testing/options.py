"""How hard a proof tries, and what the command line asks of all proofs of a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Effort:
    """``logs`` random logs go through the author's function alone, ``streams`` others through both real paths.

    A failure is made smaller for at most ``shrink_seconds``; then the smallest so far is shown.
    """

    logs: int
    streams: int
    shrink_seconds: float


USUAL = Effort(logs=24, streams=3, shrink_seconds=60.0)
QUICK = Effort(logs=8, streams=1, shrink_seconds=20.0)


@dataclass(frozen=True, slots=True)
class Options:
    """What ``pytest --prove-...`` said. None: what the call of ``prove`` says holds."""

    quick: bool = False
    runs: int | None = None
    seed: int | None = None
    replay: Path | None = None


_asked = Options()


def asked() -> Options:
    return _asked


def ask(options: Options) -> Options:
    """Set what the command line asks; returns what was asked before. Called by the plug-in once a run."""
    global _asked
    before, _asked = _asked, options
    return before


def effort(quick: bool, runs: int | None) -> Effort:
    """``runs`` logs in all, one in ten of them through both real paths."""
    usual = QUICK if quick else USUAL
    if runs is None:
        return usual
    streams = max(1, runs // 10)
    return Effort(max(runs - streams, 1), streams, usual.shrink_seconds)
