"""The tracer itself: it notes every name that changes, and kills exactly where it was told to."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.unit

PROGRAM = """
import os, subprocess, sys, threading
from pathlib import Path
def give(name):
    draft = Path(f".{name}")
    draft.write_text("whole")
    draft.rename(name)
os.chdir(sys.argv[1])
threads = [threading.Thread(target=give, args=(f"of-{n}",)) for n in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
give("last")
os.link("last", "linked")
subprocess.run(["mv", "linked", "moved"])
os.unlink("moved")
print("came to its end")
"""


def traced(folder: Path, **blow: Any) -> dict[str, Any]:
    spec = json.dumps(
        {"under": str(folder), "blow": {"path": f"{folder}/{blow.pop('path')}", **blow} if blow else None}
    )
    done = subprocess.run(
        [sys.executable, "-m", "crash.tracer", spec, "--", sys.executable, "-c", PROGRAM, str(folder)],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return {**found, "ended": "came to its end" in done.stderr}


def test_it_notes_every_name_that_changes(tmp_path: Path) -> None:
    found = traced(tmp_path)
    calls = [(call["operation"], Path(call["path"]).name) for call in found["calls"]]
    assert sorted(calls[:3]) == [("rename", f"of-{n}") for n in range(3)]
    assert calls[3:] == [("rename", "last"), ("link", "linked"), ("rename", "moved"), ("delete", "moved")]
    assert (found["code"], found["killed"], found["ended"]) == (0, False, True)


@pytest.mark.parametrize("after", [False, True])
def test_it_kills_before_a_change_or_after_it(tmp_path: Path, after: bool) -> None:
    found = traced(tmp_path, operation="rename", path="last", after=after)
    assert (found["code"], found["killed"], found["ended"]) == (-9, True, False)
    assert ((tmp_path / "last").exists(), (tmp_path / ".last").exists()) == (after, not after)
    assert not (tmp_path / "linked").exists()


def test_it_kills_at_the_nth_of_several_threads(tmp_path: Path) -> None:
    assert traced(tmp_path, operation="rename", path=r"of-\d", nth=2)["killed"]
    assert len(list(tmp_path.glob("of-*"))) <= 2, "the third one may have been at work beside it"


def test_it_kills_one_process_alone(tmp_path: Path) -> None:
    found = traced(tmp_path, operation="rename", path="moved", alone=True)
    assert (found["killed"], (tmp_path / "linked").exists()) == (True, True)
    assert found["code"] == 1, "the program goes on without its child, and finds no file to delete"


def test_a_change_that_never_comes_kills_nobody(tmp_path: Path) -> None:
    found = traced(tmp_path, operation="rename", path="nothing")
    assert (found["code"], found["killed"], found["ended"]) == (0, False, True)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("name", ["last", "linked", "of-1"])
def test_it_stops_a_program_at_a_change_until_it_is_told(tmp_path: Path, name: str, after: bool) -> None:
    operation = "link" if name == "linked" else "rename"
    blow = {"operation": operation, "path": f"{tmp_path}/{name}", "after": after, "stop": True}
    given = ["-m", "crash.tracer", json.dumps({"under": str(tmp_path), "blow": blow}), "--"]
    with subprocess.Popen(
        [sys.executable, *given, sys.executable, "-c", PROGRAM, str(tmp_path)],
        cwd=Path(__file__).parents[1], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as tracer:  # fmt: skip
        assert tracer.stdout is not None
        assert tracer.stdout.readline() == "stopped\n"
        time.sleep(0.2)
        assert (tmp_path / name).exists() == after
        assert tracer.poll() is None
        tracer.send_signal(signal.SIGCONT)
        said, errors = tracer.communicate(timeout=60)
    found = json.loads(said.splitlines()[-1])
    assert (found["code"], found["killed"]) == (0, False)
    assert "came to its end" in errors
    assert (tmp_path / name).exists() == (name != "linked")
    assert {f"of-{n}" for n in range(3)} <= {path.name for path in tmp_path.iterdir()}
