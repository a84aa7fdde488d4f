"""``python -m benchmarks [NAME ...]``: run the benchmarks; a full run writes results.json, RESULTS.md, README and docs.

Each runs in a process of its own with a time-out, in a home of its own below the system's temporary folder, which is
deleted at the end. Ports: ``ANABRANCH_KAFKA_PORT``, else ones of our own, so that a running platform is left alone.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from anabranch.core.project_folder import project_root
from anabranch.core.settings import Settings, load_settings
from anabranch.operate.runtime import lifecycle
from anabranch.operate.runtime.environment import environment

from benchmarks import citations, report
from benchmarks.cases import CASES, Case
from benchmarks.figures import Report
from benchmarks.trust import doubts
from benchmarks.world import Size

PORTS = {"kafka_port": 28592, "kafka_controller_port": 28593, "postgres_port": 28594, "airflow_port": 28595}
FILL_SECONDS = 1200.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which: {', '.join(CASES)} (all when left out)")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_const", dest="size", const="quick", help="January, 3 runs; no figures")
    size.add_argument("--tiny", action="store_const", dest="size", const="tiny", help="three days, one run; no figures")
    parser.add_argument("--write", action="store_true", help="measure nothing: write the pages from results.json again")
    args = parser.parse_args()
    if unknown := set(args.names) - set(CASES):
        parser.error(f"no benchmark is named {', '.join(sorted(unknown))}; there are: {', '.join(CASES)}")
    if args.write:
        write_pages(project_root())
        return 0
    chosen = [case for case in CASES.values() if case.name in args.names or not args.names]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as Ctrl-C: what was started is stopped first
    folder = Path(tempfile.mkdtemp(prefix="anabranch-bench-"))
    ports: dict[str, Any] = {n: p for n, p in PORTS.items() if f"ANABRANCH_{n.upper()}" not in os.environ}
    settings = load_settings(home=folder / "home", bootstrap_servers="", **ports)
    try:
        reports, failed = run(settings, chosen, args.size or "full")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(report.render(reports))
    print(f"FAILED: {', '.join(failed)}" if failed else "all done", flush=True)
    return 1 if failed else 0


def run(settings: Settings, chosen: Sequence[Case], size: Size) -> tuple[list[Report], list[str]]:
    """The reports of the benchmarks that ended, and the names of those that failed or that may not be believed."""
    found: list[Report] = []
    failed: list[str] = []

    def each(cases: Sequence[Case]) -> None:
        for case in cases:
            try:
                content = step(settings, case.name, case.timeout, size)
            except (subprocess.SubprocessError, OSError) as error:
                print(f"  {case.name} failed: {error}", flush=True)
                failed.append(case.name)
                continue
            found.append(Report.from_json(content))
            if size != "full":
                continue
            if reasons := doubts(found[-1]):
                print(f"  {case.name} gives no figure: {'; '.join(reasons)}", flush=True)
                failed.append(case.name)
                continue
            # Each time, so that what was measured stays when a later benchmark is broken off.
            report.keep(found[-1])
            write_pages(project_root())

    with ExitStack() as broker:
        if any(case.log or case.landed for case in chosen):
            broker.enter_context(lifecycle.running(settings, ["kafka"]))
            step(settings, "fill-log", FILL_SECONDS, size)
            step(settings, "fill-landing", FILL_SECONDS, size)
        each([case for case in chosen if case.log])
    each([case for case in chosen if not case.log])
    return found, failed


def write_pages(project: Path) -> None:
    """RESULTS.md, README and docs, from results.json."""
    report.RESULTS.write_text(report.page())
    figures = citations.figures_of(report.kept())
    for page in citations.pages(project):
        before = page.read_text()
        if (after := citations.written(before, figures)) != before:
            page.write_text(after)


def step(settings: Settings, name: str, timeout: float, size: Size) -> dict[str, Any]:
    """Run one step and return what it wrote. It and all it started are ended when it takes longer."""
    print(f"{name}", flush=True)
    begun, file = time.monotonic(), settings.home.parent / f"{name}.json"
    command = [sys.executable, "-m", "benchmarks.child", name, str(file), "--size", size]
    child = subprocess.Popen(
        command, cwd=report.FOLDER.parent, env={**os.environ, **environment(settings)}, start_new_session=True
    )
    try:
        code = child.wait(timeout)
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        _stop_platforms(settings)
    if code:
        raise subprocess.CalledProcessError(code, command)
    print(f"  {time.monotonic() - begun:.0f} s", flush=True)
    return dict(json.loads(file.read_text())) if file.exists() else {}


def _stop_platforms(settings: Settings) -> None:
    """Stop what a step has started in homes of its own, should it have been killed; also the demo's, within one. Ours
    runs on."""
    for run in (*settings.home.parent.glob("*/run"), *settings.home.parent.glob("*/demo/run")):
        if run.parent != settings.home:
            lifecycle.stop(settings.model_copy(update={"home": run.parent}))


if __name__ == "__main__":
    sys.exit(main())
