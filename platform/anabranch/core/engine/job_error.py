"""Passes the error of a Spark job to the Airflow task that submitted it, which otherwise sees only an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from anabranch.core.errors import AnabranchError, exit_code, root_cause

ERROR_FILE: Final = "ANABRANCH_ERROR_FILE"
"""The environment variable with the path of the file that the job writes its error to."""


def carried_out(work: Callable[[], None]) -> int:
    """Do the work of a job, and return its exit code. An error is recorded; one that isn't ours is raised again."""
    try:
        work()
    except AnabranchError as error:
        sys.stderr.write(f"{error}\n")
        record_error(error)
        return exit_code(error)
    except Exception as error:
        record_error(error)
        raise
    return 0


def record_error(error: Exception) -> None:
    """Called by a job before it exits. Does nothing when the job was started manually."""
    if path := os.environ.get(ERROR_FILE):
        known = isinstance(error, AnabranchError)
        with suppress(OSError):  # a full disk may be the error; the exit code still tells that there was one
            Path(path).write_text(str(error) if known else f"{type(error).__name__}: {root_cause(error)}")


def expect_error(path: Path) -> None:
    """Makes jobs that this process starts write their error to ``path``; forgets what an earlier job wrote."""
    path.unlink(missing_ok=True)
    os.environ[ERROR_FILE] = str(path)


def recorded_error(path: Path) -> str:
    """Returns what the job wrote; "" if it ended without an error of its own, for example by a kill."""
    with suppress(OSError):
        return path.read_text().strip()
    return ""
