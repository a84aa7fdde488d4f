"""Programs whose calls the tracer of the crash sweep changes: an answer gets lost, or they are stopped at a call."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Traced:
    """A program below a tracer."""

    process: subprocess.Popen[str]

    def wait_until_stopped(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "stopped\n", "it ended before it was at this call"

    def wake(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def end(self) -> tuple[dict[str, Any], str]:
        """What the tracer tells of it, and the program's own output."""
        said, output = self.process.communicate(timeout=120)
        found: dict[str, Any] = json.loads(said.splitlines()[-1])
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
        try:
            yield Traced(process)
        finally:
            process.kill()


def at_commit(uri: str | Path, version: int, **blow: Any) -> dict[str, Any]:
    """A blow at the call that gives the commit of ``version`` its name: delta-rs' link, or our own."""
    return {"operation": "link", "path": f"{uri}/_delta_log/{version:020d}.json", **blow}


def commit(kind: str, uri: Path) -> list[str]:
    return ["-m", "support.commit_kinds", kind, str(uri)]
