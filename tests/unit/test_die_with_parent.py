"""An engine whose task was killed doesn't go on beside the task's next try."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress

import psutil
import pytest
from anabranch.core.engine.die_with_parent import OWNERS
from support.processes import alive, eventually

pytestmark = pytest.mark.unit

DRIVER = """
import time
from anabranch.core.engine.die_with_parent import end_with_owners
end_with_owners()
print(1, flush=True)
{work}
"""
ENGINE = "import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-c', sys.argv[1]]).returncode)"
TASK = """
import subprocess, sys
from anabranch.core.engine.die_with_parent import mark_as_owner
mark_as_owner()
subprocess.run([sys.executable, "-c", sys.argv[1], sys.argv[2]])
"""
WORKER = "import subprocess, sys; subprocess.run([sys.executable, '-c', *sys.argv[1:]])"


def ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "1\n"


@pytest.mark.parametrize("killed", ["the worker", "the task"])
def test_it_ends_with_its_task_and_with_the_worker(killed: str) -> None:
    command = [sys.executable, "-c", WORKER, TASK, ENGINE, DRIVER.format(work="time.sleep(60)")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        ready(worker)
        task, engine, driver = psutil.Process(worker.pid).children(recursive=True)
        try:
            (task if killed == "the task" else psutil.Process(worker.pid)).kill()
            eventually(lambda: not (alive(engine) or alive(driver)), 10)
        finally:
            for process in (task, engine, driver):
                with suppress(psutil.NoSuchProcess):
                    process.kill()


def test_an_owner_that_is_gone_already_is_noticed() -> None:
    with subprocess.Popen(["/bin/true"]) as gone:
        gone.wait()
    command = [sys.executable, "-c", ENGINE, DRIVER.format(work="time.sleep(60)")]
    with subprocess.Popen(command, env={**os.environ, OWNERS: f"{gone.pid}"}, stdout=subprocess.DEVNULL) as engine:
        assert engine.wait(20) == -9


def test_by_hand_nobody_is_waited_for() -> None:
    done = subprocess.run([sys.executable, "-c", DRIVER.format(work="time.sleep(1)")], check=False, timeout=30)
    assert done.returncode == 0
