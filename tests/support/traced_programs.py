"""Programs whose calls the tracer of the crash sweep changes: an answer gets lost, or they are stopped at a call."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

from crash import tracer

from support import commit_kinds
from support.warm_processes import warm

SECONDS = 120
"""After so many a tracer kills what hangs."""


@dataclass(frozen=True, slots=True)
class Traced:
    """A program below a tracer, which says on ``told`` what happens; ``output`` is the program's own."""

    tracer: int
    told: IO[str]
    output: IO[str]

    def wait_until_stopped(self) -> None:
        assert self.told.readline() == "stopped\n", "it ended before it was at this call"

    def wake(self) -> None:
        os.kill(self.tracer, signal.SIGCONT)

    def end(self) -> tuple[dict[str, Any], str]:
        """What the tracer tells of it, at the latest when its own alarm rings, and the program's own output."""
        output = self.output.read()
        found: dict[str, Any] = json.loads(self.told.read().splitlines()[-1])
        return found, output


@contextmanager
def traced(
    blow: Mapping[str, Any] | None, under: str | Path, work: Callable[..., object], *given: Any
) -> Iterator[Traced]:
    """``work``, a function of a module, in a process of its own. ``blow``: see ``crash.tracer``. It dies with its
    tracer."""
    with warm(_traced, blow, str(under), work, *given) as process:
        yield Traced(process.pid, process.out, process.errors)


def _traced(blow: Mapping[str, Any] | None, under: str, work: Callable[..., object], *given: Any) -> None:
    tracer.trace(tracer.Traced(under, tracer.Blow(**blow) if blow else None, SECONDS), partial(work, *given))


def at_commit(uri: str | Path, version: int, **blow: Any) -> dict[str, Any]:
    """A blow at the call that gives the commit of ``version`` its name: delta-rs' link, or our own."""
    return {"operation": "link", "path": f"{uri}/_delta_log/{version:020d}.json", **blow}


def committing(kind: str, uri: str | Path, **blow: Any) -> AbstractContextManager[Traced]:
    """A commit of this kind (``support.commit_kinds``) in a process of its own, with a blow at it, which says, too,
    which ``version`` it will make."""
    return traced(at_commit(uri, **blow), uri, commit_kinds.main, kind, str(uri))
