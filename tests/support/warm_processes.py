"""Processes that begin with what a commit needs already imported, from Python's fork server: programs of their own need
0.7 s for it, or 2 s with an object store, and there are many."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from typing import IO, Any

import psutil
import pytest

from support.processes import eventually

IMPORTED = (
    "pandas",  # pyarrow does it for rows of Python
    "support.object_store",
    "support.publications",
    "support.stopped_acts",
    "support.traced_programs",
)


@dataclass(frozen=True, slots=True)
class Warm:
    """``out`` and ``errors``: what it prints, until it has ended."""

    process: BaseProcess
    out: IO[str]
    errors: IO[str]

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    def wait_until_stopped(self) -> None:
        eventually(lambda: psutil.Process(self.pid).status() == psutil.STATUS_STOPPED)


@contextmanager
def warm(work: Callable[..., object], *arguments: Any) -> Iterator[Warm]:
    """``work``, which ``pickle`` finds by its name, in a process that is killed at the end."""
    (out, prints), (errors, complains) = (_server().Pipe(duplex=False) for _ in range(2))
    process = _server().Process(target=_works, args=(prints, complains, work, *arguments))
    process.start()
    prints.close()
    complains.close()
    with os.fdopen(os.dup(out.fileno())) as lines, os.fdopen(os.dup(errors.fileno())) as texts:
        try:
            yield Warm(process, lines, texts)
        finally:
            process.kill()
            process.join()


@cache
def _server() -> ForkServerContext:
    """Python 3.11's looks for what it imports first only where PYTHONPATH says."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*IMPORTED])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        forkserver.ensure_running()
    return context


def _works(prints: Connection, complains: Connection, work: Callable[..., object], *arguments: Any) -> None:
    os.dup2(prints.fileno(), 1)
    os.dup2(complains.fileno(), 2)
    prints.close()
    complains.close()
    work(*arguments)
