"""The pytest plug-in for proofs: command-line options, and the shutdown of the proofs' Spark session.

Every pytest run in an environment with this package loads it, so it imports neither Spark nor hypothesis.
"""

from __future__ import annotations

import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.testing._options import Options, set_options

if TYPE_CHECKING:
    import pytest


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


def pytest_unconfigure() -> None:
    """Stops the session that proofs created, if any."""
    engine = sys.modules.get("anabranch.testing._engine")
    if engine is not None:
        engine.close()
