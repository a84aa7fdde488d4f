"""The pytest plug-in for proofs: command-line options, and the shutdown of the proofs' Spark session.

Every pytest run in an environment with this package loads it, so it imports neither Spark nor hypothesis.
"""

from __future__ import annotations

import secrets
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from anabranch.testing._options import Options, ReplayNotes, add_notes, replay_notes, set_options

_NOTES: Final = "anabranch_replays"


def _seed(text: str) -> int:
    return secrets.randbelow(2**32) if text == "random" else int(text)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("anabranch", "proofs of views (anabranch.testing.prove)")
    group.addoption("--prove-quick", action="store_true", help="prove with few logs: under 10 seconds a view")
    group.addoption("--prove-runs", type=int, metavar="N", help="draw N logs a view; one in ten runs both real paths")
    group.addoption("--prove-seed", type=_seed, metavar="SEED", help="a number, or 'random' for new logs each time")
    group.addoption("--prove-replay", type=Path, metavar="FILE", help="run only the log of a failed proof again")


def pytest_configure(config: pytest.Config) -> None:
    set_options(
        Options(
            quick=config.getoption("--prove-quick"),
            runs=config.getoption("--prove-runs"),
            seed=config.getoption("--prove-seed"),
            replay=config.getoption("--prove-replay"),
        )
    )


def pytest_report_header(config: pytest.Config) -> str | None:
    """Shows the seed if one was given: a random seed is needed to repeat the run."""
    seed = config.getoption("--prove-seed")
    return f"anabranch: proofs use seed {seed}" if seed is not None else None


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """With pytest-xdist the proofs run in processes of their own."""
    add_notes(ReplayNotes(*getattr(node, "workeroutput", {}).get(_NOTES, ((), ()))))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A run with ``--prove-replay`` fails if no proof replayed the log: nothing was proven."""
    notes, worker = replay_notes(), getattr(session.config, "workeroutput", None)
    if worker is not None:
        worker[_NOTES] = (notes.replayed, notes.skipped)
    elif _is_unused(session.config) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if _is_unused(config):
        skipped = ", ".join(sorted(set(replay_notes().skipped))) or "none"
        terminalreporter.section("anabranch", red=True)
        terminalreporter.line(
            f"--prove-replay {config.getoption('--prove-replay')}: no proof of this run is of its view"
        )
        terminalreporter.line(f"  and version, so nothing was proven. Proofs of this run: {skipped}")
        terminalreporter.line("  next: run the test that proves the view; if its version was raised, prove it without")


def _is_unused(config: pytest.Config) -> bool:
    asked = config.getoption("--prove-replay") is not None and not config.getoption("collectonly")
    return asked and not replay_notes().replayed


def pytest_unconfigure() -> None:
    """Stops the session that proofs created, if any."""
    engine = sys.modules.get("anabranch.testing._engine")
    if engine is not None:
        engine.close()
