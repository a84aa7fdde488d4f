"""``python tests/lanes.py``: every test but the sweeps; the work of ``make test``.

First what needs no servers, by three workers, which keep two cores busy. Then the tests of real servers, in two lanes
beside each other: they wait a lot, for a scheduler, a broker, a restart. (All three at once were slower: at a load of
16 each engine starts cold beside five others.) The output comes line by line behind the name of its run; build/tests
has it whole, and the JUnit files. At the end: why tests failed, the slowest, and which failed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock, Thread

from reports import print_failures, print_slowest

PROJECT = Path(__file__).parent.parent
OUTPUT = PROJECT / "build" / "tests"
SYSTEM = ("tests/crash", "tests/faults", "tests/guides", "tests/system")
"""Where tests with real servers are: reading all the others, to leave them out, takes up to a minute."""
_ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""Containers often set that one: then each run rewrites the asserts of all tests again, for a quarter of a minute."""
_OWN = "system and not sweep and not shared"
_BEHIND_SHARED = ("tests/crash", "tests/faults", "tests/guides")


@dataclass(frozen=True, slots=True)
class Lane:
    """Runs of pytest, one after the other, by their name; ``beside`` keeps its ports from those of other lanes."""

    name: str
    runs: Mapping[str, Sequence[str]]
    beside: int = 0


_WORKERS = ("-n", "3", "--dist", "loadfile", "--no-loadscope-reorder")
"""The order of files is that of ``conftest``: xdist's own begins with those of most tests, which are the cheapest."""
PHASES = (
    (Lane("fast", {"fast": ("-m", "not system and not sweep", *_WORKERS)}),),
    (
        # The tests of the one platform that they share, then these: together as long as the other lane.
        Lane(
            "platform",
            {"shared": ("-m", "system and not sweep and shared", *SYSTEM), "faults": ("-m", _OWN, *_BEHIND_SHARED)},
        ),
        Lane(
            "servers",
            {"servers": ("-m", _OWN, *(folder for folder in SYSTEM if folder not in _BEHIND_SHARED))},
            beside=1,
        ),
    ),
)


@dataclass
class _Running:
    lane: Lane
    started: float = field(default_factory=time.monotonic)
    failed: list[str] = field(default_factory=list)
    seconds: float = 0.0
    process: subprocess.Popen[str] | None = None

    def run(self, written: Lock, stopped: Mapping[str, bool]) -> None:
        for name, arguments in self.lane.runs.items():
            if stopped:
                return
            if self._pytest(name, arguments, written) != 0:
                self.failed.append(name)
        self.seconds = time.monotonic() - self.started

    def _pytest(self, name: str, arguments: Sequence[str], written: Lock) -> int:
        command = [sys.executable, "-m", "pytest", *arguments, "--junitxml", str(OUTPUT / f"{name}.xml")]
        self.process = subprocess.Popen(
            command,
            cwd=PROJECT, env={**_ENVIRONMENT, "TESTS_BESIDE": str(self.lane.beside), "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        )  # fmt: skip
        assert self.process.stdout is not None
        with (OUTPUT / f"{name}.log").open("w", buffering=1) as log:
            for line in self.process.stdout:
                log.write(line)
                with written:
                    print(f"[{name}] {line}", end="", flush=True)  # noqa: T201
        return self.process.wait()


def _keep_byte_code() -> None:
    """Of our own modules: pytest keeps that of those which tests import, but each command, task and job is a process of
    its own, which would else translate hundreds of them again."""
    command = [sys.executable, "-m", "compileall", "-qq", "-j", "0", "platform", "dags", "spark_jobs"]
    subprocess.run(command, cwd=PROJECT, env=_ENVIRONMENT, check=True)


def main() -> int:
    OUTPUT.mkdir(parents=True, exist_ok=True)
    for file in OUTPUT.iterdir():
        file.unlink()
    _keep_byte_code()
    written, stopped = Lock(), dict[str, bool]()
    running: list[_Running] = []

    def stop(*_: object) -> None:
        """As Ctrl-C does: pytest stops what its tests have started."""
        stopped["by a signal"] = True
        for each in running:
            if each.process is not None and each.process.poll() is None:
                each.process.send_signal(signal.SIGINT)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    for phase in PHASES:
        now = [_Running(lane) for lane in phase]
        running += now
        threads = [Thread(target=each.run, args=(written, stopped)) for each in now]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    reports = sorted(OUTPUT.glob("*.xml"))
    failed = print_failures(reports)
    print_slowest(reports)
    for each in running:
        state = f"FAILED: {', '.join(each.failed)}" if each.failed else "passed"
        print(f"{each.lane.name}: {state} in {each.seconds / 60:.1f} min")  # noqa: T201
    # Once more at the very end: of a long output, CI keeps the last lines.
    for name in failed:
        print(f"FAILED {name}")  # noqa: T201
    return 1 if stopped or any(each.failed for each in running) else 0


if __name__ == "__main__":
    sys.exit(main())
