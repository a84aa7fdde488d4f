"""The effort of a proof, and the command-line options for all proofs of a pytest run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Effort:
    """``logs`` random logs are run through the author's function alone, ``streams`` others through both real paths.

    A failure is shrunk for at most ``shrink_seconds``; then the smallest one so far is shown.
    """

    logs: int
    streams: int
    shrink_seconds: float


USUAL = Effort(logs=24, streams=3, shrink_seconds=60.0)
QUICK = Effort(logs=8, streams=1, shrink_seconds=20.0)


@dataclass(frozen=True, slots=True)
class Options:
    """The options ``pytest --prove-...``. None: the arguments of ``prove`` apply."""

    quick: bool = False
    runs: int | None = None
    seed: int | None = None
    replay: Path | None = None


@dataclass(frozen=True, slots=True)
class ReplayNotes:
    """The views whose proofs ran the log of ``--prove-replay``, and those that were skipped since it isn't theirs."""

    replayed: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()


_current = Options()
_notes = ReplayNotes()


def current_options() -> Options:
    return _current


def set_options(options: Options) -> Options:
    """Sets the command-line options and returns the previous ones. Called by the plug-in once per run."""
    global _current
    before, _current = _current, options
    return before


def note_replay(view: str, *, replayed: bool) -> None:
    """Called by each proof of a run with ``--prove-replay``."""
    add_notes(ReplayNotes((view,)) if replayed else ReplayNotes(skipped=(view,)))


def add_notes(more: ReplayNotes) -> None:
    """Adds the notes of another process of the same run."""
    global _notes
    _notes = ReplayNotes((*_notes.replayed, *more.replayed), (*_notes.skipped, *more.skipped))


def replay_notes() -> ReplayNotes:
    return _notes


def effort(quick: bool, runs: int | None) -> Effort:
    """``runs`` logs in total, one in ten of them through both real paths."""
    usual = QUICK if quick else USUAL
    if runs is None:
        return usual
    streams = max(1, runs // 10)
    return Effort(max(runs - streams, 1), streams, usual.shrink_seconds)
