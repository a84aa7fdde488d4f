"""Programs whose calls the tracer of the crash sweep changes: an answer gets lost, or they are stopped at a call."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

from crash import tracer

from support import commit_kinds
from support.warm_processes import warm

TESTS = Path(__file__).parents[1]


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
    program: Sequence[str], under: Path, blow: Mapping[str, Any] | None, env: Mapping[str, str] | None = None
) -> Iterator[Traced]:
    """``program``: arguments of Python. ``blow``: see ``crash.tracer``. It dies with its tracer."""
    told = json.dumps({"under": str(under), "blow": blow})
    with subprocess.Popen(
        [sys.executable, "-m", "crash.tracer", told, "--", sys.executable, *program],
        cwd=TESTS, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            yield Traced(process.pid, process.stdout, process.stderr)
        finally:
            process.kill()


def at_commit(uri: str | Path, version: int, **blow: Any) -> dict[str, Any]:
    """A blow at the call that gives the commit of ``version`` its name: delta-rs' link, or our own."""
    return {"operation": "link", "path": f"{uri}/_delta_log/{version:020d}.json", **blow}


@contextmanager
def committing(kind: str, uri: str | Path, **blow: Any) -> Iterator[Traced]:
    """A commit of this kind (``support.commit_kinds``) in a process of its own, with a blow at it, which says, too,
    which ``version`` it will make."""
    with warm(_commits, kind, str(uri), at_commit(uri, **blow)) as process:
        yield Traced(process.pid, process.out, process.errors)


def _commits(kind: str, uri: str, blow: Mapping[str, Any]) -> None:
    tracer.trace(tracer.Traced(uri, tracer.Blow(**blow)), partial(commit_kinds.main, kind, uri))
