"""Who holds a lock, and when a holder that is stopped is ended (ADR 50). Every process here is real."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from anabranch.core import _lock_holders
from anabranch.core.atomic_files import is_held, locked
from anabranch.core.errors import AnabranchError, Conflict, TryAgain
from support.lock_holders import holder, program, stop, wait_until_stopped
from support.processes import alive, eventually

pytestmark = [pytest.mark.unit, pytest.mark.timeout(120)]
SECONDS = 1.0
LONG = 3.0
"""For tests in which a holder must go on before the time is up, on a slow machine too."""
ATTACH, DETACH = 16, 17


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_lock_holders, "STOPPED_SECONDS", SECONDS)


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "locks" / "replay-delays-v1"


def running() -> Conflict:
    return Conflict("REPLAY_RUNNING", "another replay runs", next_step="wait until it ends")


def refused(lock: Path, wait: float = 0.0, refusal: Exception | None = None) -> AnabranchError:
    with pytest.raises(AnabranchError) as caught, locked(lock, wait=wait, refusal=refusal):
        pass
    return caught.value


def test_one_that_is_stopped_is_ended_with_its_engine(lock: Path, caplog: pytest.LogCaptureFixture) -> None:
    with holder(lock, engine=True) as (zombie, engine):
        os.kill(engine, signal.SIGSTOP)  # it wouldn't notice the end of its parent
        child = psutil.Process(engine)
        stop(zombie)
        began = time.monotonic()
        with caplog.at_level(logging.WARNING), locked(lock, refusal=running()):
            assert SECONDS <= time.monotonic() - began < SECONDS + 10
            assert zombie.wait(5) == -signal.SIGKILL
            eventually(lambda: not alive(child), 5)
    assert f"ending pid {zombie.pid} (" in caplog.text
    assert "held the lock replay-delays-v1" in caplog.text


STARTS = """
import os, signal, subprocess, sys, time
from pathlib import Path
from anabranch.core.atomic_files import locked
lock, seconds, code, done = sys.argv[1:]
with locked(Path(lock), wait=5):
    script = '"$0" -c "$1" "$2" "$3" 12; touch "$4"'
    subprocess.Popen(["/bin/sh", "-c", script, sys.executable, code, lock, seconds, done], stdout=subprocess.DEVNULL)
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(600)
"""


def test_what_the_stopped_one_has_started_is_not_ended_if_the_successor_runs_in_it(lock: Path, tmp_path: Path) -> None:
    """A shell that goes on after its successor: `anabranch a; anabranch b`."""
    done = tmp_path / "done"
    with program(STARTS, str(lock), str(SECONDS), ENTER, str(done)) as stopped:
        wait_until_stopped(stopped)
        assert stopped.wait(30) == -signal.SIGKILL
        eventually(done.exists, 10)


def test_one_that_is_slow_keeps_its_lock_and_is_named(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_lock_holders, "STOPPED_SECONDS", 4 * LONG)
    with holder(lock) as (slow, _):
        began = time.monotonic()
        error = refused(lock, refusal=running())
        assert time.monotonic() - began < 4 * LONG, "it is refused at once"
        assert (error.code, f"held by pid {slow.pid} (" in error.what) == ("REPLAY_RUNNING", True)
        began = time.monotonic()
        error = refused(lock, wait=2 * SECONDS)
        assert 2 * SECONDS <= time.monotonic() - began < 2 * SECONDS + 10
        assert (type(error), error.code, f"held by pid {slow.pid} (" in error.what) == (TryAgain, "LOCK_HELD", True)
        assert slow.poll() is None


def test_one_that_goes_on_before_the_time_is_up_keeps_its_lock(lock: Path) -> None:
    """Stopped again and again, longer in all than the time: but never for so long at once."""
    with holder(lock) as (paused, _), program(ENTER, str(lock), str(LONG), "60") as waits:
        for _ in range(14):
            stop(paused)
            time.sleep(LONG / 6)
            paused.send_signal(signal.SIGCONT)
        assert waits.poll() is None
        time.sleep(LONG)
        assert paused.poll() is None
        paused.kill()
        assert waits.stdout is not None
        assert waits.stdout.read() == "in\n"


ENTER = """
import sys
from pathlib import Path
from anabranch.core import _lock_holders
from anabranch.core.atomic_files import locked
_lock_holders.STOPPED_SECONDS = float(sys.argv[2])
with locked(Path(sys.argv[1]), wait=float(sys.argv[3])):
    print("in", flush=True)
"""


def test_one_that_goes_on_while_a_successor_looks_refuses_it(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_lock_holders, "STOPPED_SECONDS", LONG)
    with holder(lock) as (paused, _):
        stop(paused)
        woken = subprocess.Popen(["/bin/sh", "-c", f"sleep {LONG / 6}; kill -CONT {paused.pid}"])
        assert refused(lock, refusal=running()).code == "REPLAY_RUNNING"
        assert woken.wait() == 0
        time.sleep(LONG)
        assert paused.poll() is None


def test_one_in_a_debugger_keeps_its_lock(lock: Path) -> None:
    trace: Callable[..., int] = ctypes.CDLL(None, use_errno=True).ptrace
    with holder(lock) as (debugged, _):
        assert trace(ATTACH, debugged.pid, None, None) == 0
        wait_until_stopped(debugged)
        try:
            assert psutil.Process(debugged.pid).status() == psutil.STATUS_TRACING_STOP
            assert refused(lock, wait=2 * SECONDS).code == "LOCK_HELD"
        finally:
            trace(DETACH, debugged.pid, None, None)
        assert debugged.poll() is None


def test_a_process_that_only_has_the_number_of_a_holder_is_not_ended(lock: Path) -> None:
    """A pid that is used again, after a holder was killed; and one that waits for the lock."""
    waits = "import sys, time; file = open(sys.argv[1], 'a'); print(1, flush=True); time.sleep(600)"
    with (
        holder(lock) as (holds, _),
        program("import time; time.sleep(600)") as other,
        program(waits, str(lock)) as open_,
    ):
        note = lock.with_name(f"{lock.name}.holder-left")
        note.write_text(f"pid {other.pid} on {os.uname().nodename} since 2013-01-01 05:00:00 UTC: replay")
        assert open_.stdout is not None
        open_.stdout.readline()
        stop(other)
        stop(open_)
        error = refused(lock, wait=2 * SECONDS)
        assert (f"pid {holds.pid} (" in error.what, f"{other.pid}" in error.what) == (True, False)
        assert [process.poll() for process in (holds, other, open_)] == [None] * 3
        holds.kill()
        with locked(lock, wait=5):
            assert len([*lock.parent.glob(f"{lock.name}.holder-*")]) == 1, "what the killed one said has gone"
    assert [path.name for path in lock.parent.iterdir()] == [lock.name]


@pytest.mark.parametrize(
    ("module", "name"), [(os, "pidfd_open"), (signal, "pidfd_send_signal")], ids=["open", "signal"]
)
def test_without_pidfds_nobody_is_ended(lock: Path, monkeypatch: pytest.MonkeyPatch, module: object, name: str) -> None:
    """As on macOS, or built with the headers of an old kernel."""
    monkeypatch.delattr(module, name)
    with holder(lock, engine=True) as (stopped, engine):
        stop(stopped)
        error = refused(lock, refusal=running())
        assert (error.code, f"held by pid {stopped.pid} (" in error.what) == ("REPLAY_RUNNING", True)
        assert (stopped.poll(), psutil.pid_exists(engine)) == (None, True)
        os.kill(engine, signal.SIGKILL)


def test_of_several_only_the_stopped_one_is_ended(lock: Path) -> None:
    with holder(lock, shared=True) as (stopped, _), holder(lock, shared=True) as (slow, _):
        stop(stopped)
        error = refused(lock, wait=2 * SECONDS)
        assert stopped.wait(5) == -signal.SIGKILL
        assert (f"pid {slow.pid} (" in error.what, f"pid {stopped.pid} (" in error.what) == (True, False)
        with locked(lock, shared=True, wait=1):
            assert slow.poll() is None


def test_a_question_ends_nobody(lock: Path) -> None:
    with holder(lock) as (stopped, _):
        stop(stopped)
        for _ in range(3):
            with pytest.raises(BlockingIOError), locked(lock):
                pass
            time.sleep(SECONDS)
        assert stopped.poll() is None


def test_one_of_another_container_is_named_and_can_not_be_ended(lock: Path) -> None:
    apart = ["unshare", "--pid", "--uts", "--fork", "--mount-proc", "--map-root-user"]
    if subprocess.run([*apart, "true"], capture_output=True).returncode:
        pytest.skip("this user may not make a pid namespace")
    code = "import subprocess, sys; subprocess.run(['hostname', 'elsewhere'], check=True)" + ENTER
    with holder(lock) as (stopped, _):
        stop(stopped)
        command = [*apart, sys.executable, "-c", code, str(lock), str(SECONDS), f"{2 * SECONDS}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert stopped.poll() is None
    assert f"pid {stopped.pid} on {os.uname().nodename} since " in done.stderr
    assert "end it where it runs" in done.stderr


def test_one_of_another_user_of_this_machine_is_named(lock: Path) -> None:
    """A user namespace of its own may see as little of the holder as another user does: that it exists."""
    apart = ["unshare", "--user"]
    if subprocess.run([*apart, "true"], capture_output=True).returncode:
        pytest.skip("this user may not make a user namespace")
    with holder(lock) as (other, _):
        command = [*apart, sys.executable, "-c", ENTER, str(lock), str(SECONDS), f"{SECONDS}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert f"can't be seen from here (pid {other.pid} on {os.uname().nodename} since " in done.stderr


def test_without_proc_what_holders_say_names_them(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS. What a killed one has left is said only if nobody else says anything: with two containers of one
    host's name, it may be of the other one."""
    monkeypatch.setattr(_lock_holders, "_PROCESSES", lock / "nothing")
    ended = subprocess.Popen(["/bin/true"])
    ended.wait()
    with holder(lock) as (holds, _):
        (said,) = lock.parent.glob(f"{lock.name}.holder-*")
        left = lock.with_name(f"{lock.name}.holder-left")
        left.write_text(f"pid {ended.pid} on {os.uname().nodename} since 2013-01-01 05:00:00 UTC: replay")
        what = refused(lock, refusal=running()).what
        assert (f"pid {holds.pid} on " in what, f"pid {ended.pid} on " in what) == (True, False)
        said.unlink()
        assert f"pid {ended.pid} on " in refused(lock, refusal=running()).what


HANGS = """
import ctypes, os, sys
from pathlib import Path
from anabranch.core.atomic_files import locked
from anabranch.core.errors import TryAgain
from support.lock_holders import holder
lock, folder = map(Path, sys.argv[1:])
folder.mkdir()
fuse = os.open("/dev/fuse", os.O_RDWR)  # nobody answers what is asked here
options = f"fd={fuse},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
if ctypes.CDLL(None).mount(b"hangs", bytes(folder), b"fuse", 0, options.encode()):
    sys.exit("not mounted")
with holder(lock) as (holds, _):
    os.open(folder, os.O_PATH)
    print("mounted", flush=True)
    try:
        with locked(lock, wait=1):
            pass
    except TryAgain as error:
        print(f"held by pid {holds.pid} (" in error.what)
"""


def test_a_file_on_a_dead_mount_does_not_block_who_waits(lock: Path, tmp_path: Path) -> None:
    """Somebody's descriptor of a network mount whose server has gone."""
    apart = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
    command = [*apart, sys.executable, "-c", HANGS, str(lock), str(tmp_path / "mount")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        if process.stdout.readline() != "mounted\n":
            pytest.skip("this user may not mount a file system")
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            pytest.fail("it hangs in what it asks of the mount")
        finally:
            process.kill()
        assert process.stdout.read() == "True\n"


def test_only_descriptors_with_the_name_of_the_lock_are_followed(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    followed, stat = list[str](), os.stat
    lock = lock.with_name("followed-by-this-test")  # beside other tests, which have locks of the usual name

    def noted(path: Any, *given: Any, **more: Any) -> os.stat_result:
        if "/fd/" in str(path):
            followed.append(str(path.readlink()))
        return stat(path, *given, **more)

    with holder(lock) as (holds, _):
        monkeypatch.setattr(os, "stat", noted)
        assert f"held by pid {holds.pid} (" in refused(lock, refusal=running()).what
    assert set(followed) == {str(lock)}


ASK = """
import sys
from pathlib import Path
from anabranch.core.atomic_files import is_held
print(is_held(Path(sys.argv[1])))
"""


@pytest.mark.parametrize("shared", [False, True])
def test_the_question_whether_a_lock_is_held(lock: Path, shared: bool) -> None:
    assert not is_held(lock)
    assert not lock.parent.exists(), "it creates nothing"
    with holder(lock, shared=shared) as (holds, _), lock.open("a"):
        assert is_held(lock)
        holds.kill()
        holds.wait()
        assert not is_held(lock)
    with locked(lock, refusal=running()):
        assert is_held(lock)


def test_the_question_whether_one_of_another_container_holds_a_lock(lock: Path) -> None:
    """The kernel doesn't list its locks there: the doctor said that a replay at work was killed."""
    apart = ["unshare", "--pid", "--fork", "--mount-proc", "--map-root-user"]
    if subprocess.run([*apart, "true"], capture_output=True).returncode:
        pytest.skip("this user may not make a pid namespace")
    with holder(lock):
        done = subprocess.run([*apart, sys.executable, "-c", ASK, str(lock)], capture_output=True, text=True)
    assert done.stdout == "True\n"
