"""The pytest plug-in of proofs: their options on the command line, and the end of their Spark session.

Every pytest run of an environment that has this package loads it, so it imports neither Spark nor hypothesis.
"""

from __future__ import annotations

import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.testing.options import Options, ask

if TYPE_CHECKING:
    import pytest


def _seed(text: str) -> int:
    return secrets.randbelow(2**32) if text == "random" else int(text)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("anabranch", "proofs of views (anabranch.testing.prove)")
    group.addoption("--prove-quick", action="store_true", help="prove with few logs: under 10 seconds a view")
    group.addoption("--prove-runs", type=int, metavar="N", help="draw N logs a view; one in ten runs both real paths")
    group.addoption("--prove-seed", type=_seed, metavar="SEED", help="a number, or 'random' for other logs each time")
    group.addoption("--prove-replay", type=Path, metavar="FILE", help="run the log of a failed proof again, only that")


def pytest_configure(config: pytest.Config) -> None:
    ask(
        Options(
            quick=config.getoption("--prove-quick"),
            runs=config.getoption("--prove-runs"),
            seed=config.getoption("--prove-seed"),
            replay=config.getoption("--prove-replay"),
        )
    )


def pytest_report_header(config: pytest.Config) -> str | None:
    """Said only where it matters: another seed each time must be known to be repeated."""
    seed = config.getoption("--prove-seed")
    return f"anabranch: proofs by seed {seed}" if seed is not None else None


def pytest_unconfigure() -> None:
    """Stop the session that proofs made for themselves, if any did."""
    engine = sys.modules.get("anabranch.testing.engine")
    if engine is not None:
        engine.close()
