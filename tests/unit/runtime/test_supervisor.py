"""Parts that are small real processes: started in order, started again, stopped with all that belongs to them."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from anabranch.core.errors import BadInput, BrokenState, Conflict, TryAgain
from anabranch.core.settings import Settings
from anabranch.operate.runtime import _stop_services, _supervisor, lifecycle, process_registry
from anabranch.operate.runtime._service import Restart, Service, depths
from anabranch.operate.runtime._start_failures import TRIED_AGAIN, UNWATCHED
from anabranch.operate.runtime._supervisor import LOG_BYTES, created, launch, next_pause, supervise
from anabranch.operate.runtime.airflow_parts import Workers
from anabranch.operate.runtime.process_registry import SUPERVISOR, Record

pytestmark = pytest.mark.unit

SLEEPS = "import time; time.sleep(600)"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
)
FORKING = """
import os, signal, time

def fork(*_):
    if os.fork():
        os._exit(0)

signal.signal(signal.SIGTERM, fork)
print("up", flush=True)
while True:
    time.sleep(1)
"""
PARENT = f"""
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", {SLEEPS!r}], %s)
print(child.pid, flush=True)
time.sleep(600)
"""
ASKING = """
import os, signal, time

def told(*_):
    while open(f"/proc/{os.getppid()}/stat").read().rpartition(")")[2].split()[0] == "T":
        time.sleep(0.01)
    print("answered", flush=True)
    os._exit(0)

signal.signal(signal.SIGTERM, told)
print("child up", flush=True)
time.sleep(600)
"""
WATCHFUL = f"""
import os, signal, subprocess, sys, time

child = subprocess.Popen([sys.executable, "-c", {SLEEPS!r}])

def told(*_):
    print("told after its child had ended" if ended() else "told before its child", flush=True)
    os._exit(0)

def ended():
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)

signal.signal(signal.SIGTERM, told)
print("up", flush=True)
while not ended():
    time.sleep(0.001)
print("its child has died", flush=True)
"""


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    made = Settings(home=tmp_path / "home")
    yield made
    _stop_services.stop(made)


@pytest.fixture
def supervised(settings: Settings) -> Iterator[Callable[..., object]]:
    stop = threading.Event()
    yield lambda *parts: supervise(settings, parts, stop)
    stop.set()


def part(settings: Settings, name: str, code: str = SLEEPS, **more: Any) -> Service:
    made = Service(name, (sys.executable, "-c", code), settings.home, settings.logs / f"{name}.log", grace=2.0)
    settings.home.mkdir(exist_ok=True)
    return replace(made, **more)


def eventually(
    settings: Settings, holds: Callable[[dict[str, Record]], object], seconds: float = 15
) -> dict[str, Record]:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = process_registry.read(settings)
        if holds(found):
            return found
        time.sleep(0.02)
    raise AssertionError(f"not within {seconds} s: {process_registry.read(settings)}")


def state(name: str, wanted: str) -> Callable[[dict[str, Record]], bool]:
    return lambda found: name in found and found[name].state == wanted


def recorded(settings: Settings, made: Service, depth: int = 0) -> Record:
    """Start a part without a supervisor, as it is left behind when the supervisor was killed."""
    process = launch(made)
    threading.Thread(target=process.wait, daemon=True).start()
    record = Record(
        made.name,
        "running",
        process.pid,
        created(process.pid),
        made.command,
        None,
        str(made.log),
        depth,
        15,
        made.grace,
        children_first=made.children_first,
    )
    process_registry.write(settings, record)
    return record


def test_parts_start_in_the_order_of_what_they_need(settings: Settings, supervised: Callable[..., None]) -> None:
    gate = threading.Event()
    supervised(
        part(settings, "app", depends_on=("step", "elsewhere")),
        part(settings, "database", ready=lambda _: gate.is_set()),
        part(settings, "step", "pass", depends_on=("database",), restart=Restart.ONCE),
    )
    found = eventually(settings, state("database", "starting"))
    time.sleep(0.3)
    assert set(process_registry.read(settings)) == {"database"}
    gate.set()
    found = eventually(settings, state("app", "running"))
    assert {name: r.state for name, r in found.items()} == {"database": "running", "step": "done", "app": "running"}
    assert [found[name].depth for name in ("database", "step", "app")] == [0, 1, 2]


def test_a_part_that_dies_is_started_again(settings: Settings, supervised: Callable[..., None]) -> None:
    supervised(part(settings, "stream"))
    first = eventually(settings, state("stream", "running"))["stream"]
    os.kill(first.pid, signal.SIGKILL)
    waiting = eventually(settings, state("stream", "waiting"))["stream"]
    assert "ended with -9" in waiting.detail
    second = eventually(settings, state("stream", "running"))["stream"]
    assert (second.restarts, second.pid != first.pid) == (1, True)


def test_a_part_that_ails_is_ended_and_started_again(
    settings: Settings, supervised: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, records, write = list[int](), list[Record](), process_registry.write

    def noting(settings: Settings, record: Record) -> object:  # what lasts a second is over before a look on a busy day
        records.append(record)
        return write(settings, record)

    monkeypatch.setattr(process_registry, "write", noting)

    def unhealthy_reason(pid: int) -> str:
        asked.append(pid)
        return "it does nothing" if len(asked) == 1 else ""

    supervised(part(settings, "lame", unhealthy_reason=unhealthy_reason))
    again = eventually(settings, lambda found: state("lame", "running")(found) and len(set(asked)) == 2)["lame"]
    first = next(record for record in records if record.state == "running")
    assert any("Unhealthy: it does nothing; next start in 1 s" in record.detail for record in records)
    assert (set(asked), again.restarts) == ({first.pid, again.pid}, 1)
    assert process_registry.family(first) == []


SCHEDULER = """
import multiprocessing, sys, time
from setproctitle import setproctitle

def worker(queue):
    setproctitle("airflow worker -- LocalExecutor: <idle>")
    while True:
        queue.get()
        print("taken", flush=True)

if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    queue = multiprocessing.SimpleQueue()
    for _ in range(3):
        multiprocessing.Process(target=worker, args=(queue,), daemon=True).start()
    time.sleep(1)
    print("up", flush=True)
    for line in sys.stdin:
        queue.put(line)
"""


@contextlib.contextmanager
def all_killed(pid: int) -> Iterator[None]:
    try:
        yield
    finally:
        for process in (*psutil.Process(pid).children(), psutil.Process(pid)):
            process.kill()


def test_a_worker_of_the_scheduler_that_is_killed_is_noticed() -> None:
    with (
        subprocess.Popen(
            [sys.executable, "-c", SCHEDULER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        ) as scheduler,
        all_killed(scheduler.pid),
    ):
        assert scheduler.stdin is not None
        assert scheduler.stdout is not None
        assert scheduler.stdout.readline() == "up\n"
        workers = Workers()
        assert [workers.lost(scheduler.pid) for _ in range(3)] == [""] * 3
        scheduler.stdin.write("a task\n")
        assert scheduler.stdout.readline() == "taken\n"
        assert workers.lost(scheduler.pid) == "", "it has done its work, and waits"
        killed = psutil.Process(scheduler.pid).children()[0]
        killed.kill()
        gone = time.monotonic() + 10
        while not (why := workers.lost(scheduler.pid)) and time.monotonic() < gone:
            time.sleep(0.05)
        assert f"worker {killed.pid} was killed" in why
        assert workers.lost(os.getpid()) == "", "another process is another scheduler"


def test_pauses_grow_and_start_over_after_a_healthy_minute() -> None:
    pauses = [1.0]
    for _ in range(6):
        pauses.append(next_pause(pauses[-1], lived=2))
    assert pauses == [1, 2, 4, 8, 16, 30, 30]
    assert next_pause(30, lived=60) == 1


def test_a_failing_preparation_is_tried_again_and_harms_nobody(
    settings: Settings, supervised: Callable[..., None]
) -> None:
    tries: list[int] = []

    def prepare() -> None:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("no such disk")

    supervised(part(settings, "shaky", prepare=prepare), part(settings, "steady"))
    assert "no such disk" in eventually(settings, state("shaky", "waiting"))["shaky"].detail
    eventually(settings, state("shaky", "running"))
    assert process_registry.read(settings)["steady"].restarts == 0


def test_a_step_that_was_done_is_not_run(settings: Settings, supervised: Callable[..., None]) -> None:
    finished: list[str] = []
    supervised(
        part(settings, "old", "raise SystemExit(1)", restart=Restart.ONCE, needed=lambda: False),
        part(settings, "new", "pass", restart=Restart.ONCE, finish=lambda: finished.append("new")),
    )
    eventually(settings, lambda found: state("old", "done")(found) and state("new", "done")(found))
    assert finished == ["new"]


@pytest.mark.parametrize("hours", [0, -24, 24])
def test_a_clock_that_is_set_while_a_part_starts_is_not_minded(
    settings: Settings, supervised: Callable[..., None], monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    """Set back it was never ready, nor ever ended; set ahead it was ended at once."""
    lived, real = list[float](), time.time

    def ready(seconds: float) -> bool:
        lived.append(seconds)
        monkeypatch.setattr(time, "time", lambda: real() + hours * 3_600)
        return seconds >= 0.5

    supervised(part(settings, "slow", ready=ready))
    assert eventually(settings, state("slow", "running"))["slow"].restarts == 0
    assert max(lived) < 60


def test_a_part_that_is_never_ready_is_ended(settings: Settings, supervised: Callable[..., None]) -> None:
    supervised(part(settings, "silent", ready=lambda _: False, start_timeout=0.5))
    first = eventually(settings, state("silent", "starting"))["silent"]
    eventually(settings, state("silent", "waiting"))
    assert first.process() is None


def test_one_part_is_started_again_while_the_others_go_on(settings: Settings, supervised: Callable[..., None]) -> None:
    supervised(part(settings, "log"), part(settings, "speed", STUBBORN))
    eventually(settings, lambda found: state("log", "running")(found) and state("speed", "running")(found))
    recorded(settings, part(settings, SUPERVISOR))
    before = process_registry.read(settings)
    now = lifecycle.restart(settings, "speed")
    after = process_registry.read(settings)
    assert (now.name, now.state, now.restarts) == ("speed", "running", 1)
    assert now.pid not in (None, before["speed"].pid)
    assert before["speed"].process() is None
    assert after["log"] == before["log"]
    with pytest.raises(BadInput, match=r"'view' is no part that runs here \[PART_NOT_RUNNING\]") as refused:
        lifecycle.restart(settings, "view")
    assert refused.value.next_step == "one of: log, speed"


def test_a_part_that_does_not_come_back_is_said_and_the_others_go_on(
    settings: Settings, supervised: Callable[..., None]
) -> None:
    mark = settings.home / "was-here"
    once = f"import pathlib, time; mark = pathlib.Path({str(mark)!r}); mark.touch(exist_ok=False); time.sleep(600)"
    supervised(part(settings, "log"), part(settings, "speed", once))
    eventually(
        settings, lambda found: state("log", "running")(found) and state("speed", "running")(found) and mark.exists()
    )
    recorded(settings, part(settings, SUPERVISOR))
    with pytest.raises(BrokenState) as failed:
        lifecycle.restart(settings, "speed")
    assert failed.value.code == "PART_FAILED"
    assert "FileExistsError" in str(failed.value)
    assert "anabranch up" not in str(failed.value)
    assert process_registry.read(settings)["log"].process() is not None


def as_running(settings: Settings, *names: str) -> Record:
    """A supervisor's record with these parts, as of a platform that runs."""
    watching = part(settings, SUPERVISOR)
    return recorded(settings, replace(watching, command=(*watching.command, *names)))


def waiting(settings: Settings, name: str, restarts: int) -> None:
    detail = "ended with 1; next start in 4 s"
    log = str(settings.logs / f"{name}.log")
    record = Record(name, "waiting", 0, 0.0, (), None, log, 0, 15, 1.0, restarts=restarts, detail=detail)
    process_registry.write(settings, record)


def test_up_beside_a_part_that_has_crashed_before_waits_for_it(settings: Settings) -> None:
    """It has crashed often since the start, and is about to come back: nothing of this start has failed."""
    as_running(settings, "kafka")
    waiting(settings, "kafka", restarts=7)

    def comes_back(_: object) -> None:
        if process_registry.read(settings)["kafka"].restarts == 9:
            recorded(settings, part(settings, "kafka"))
        else:
            waiting(settings, "kafka", restarts=9)

    assert lifecycle.start(settings, ["kafka"], comes_back) == ["the platform is already running"]


def test_up_beside_a_part_that_never_comes_back_says_what_runs(settings: Settings) -> None:
    supervisor = as_running(settings, "kafka")
    waiting(settings, "kafka", restarts=1)
    with pytest.raises(BrokenState, match="kafka did not start: ended with 1") as failed:
        lifecycle.start(settings, ["kafka"], lambda _: waiting(settings, "kafka", restarts=4))
    assert (failed.value.code, failed.value.state) == ("PART_FAILED", TRIED_AGAIN.state)
    assert supervisor.process() is not None


def test_up_beside_a_supervisor_that_ends_says_that_nothing_watches(settings: Settings) -> None:
    supervisor = as_running(settings, "kafka")

    def killed(_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(supervisor.pid, signal.SIGKILL)

    with pytest.raises(BrokenState) as failed:
        lifecycle.start(settings, ["kafka"], killed)
    assert (failed.value.fields["part"], failed.value.state) == (SUPERVISOR, UNWATCHED.state)


def test_down_beside_a_starting_up_is_said(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    def down(_: object) -> None:
        _stop_services.stop(settings)

    as_running(settings, "kafka")
    with pytest.raises(Conflict) as refused:
        lifecycle.start(settings, ["kafka"], down)
    assert refused.value.code == "PLATFORM_STOPPED"
    monkeypatch.setattr(lifecycle, "check_all", lambda *_: None)
    monkeypatch.setattr(lifecycle, "_launch_supervisor", lambda *_: as_running(settings, "kafka"))
    with pytest.raises(Conflict) as refused:
        lifecycle.start(settings, ["kafka"], down)
    assert refused.value.code == "PLATFORM_STOPPED"


@pytest.mark.parametrize("how", ["down", "killed"])
def test_a_restart_ends_at_once_when_nothing_would_start_the_part(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    supervisor = as_running(settings, "kafka")
    recorded(settings, part(settings, "kafka"))
    end = _stop_services.end

    def then(level: Any) -> None:
        end(level)
        if how == "killed":
            os.kill(supervisor.pid, signal.SIGKILL)
            _wait_gone(supervisor.pid)
        else:
            monkeypatch.setattr(_stop_services, "end", end)
            _stop_services.stop(settings)

    monkeypatch.setattr(_stop_services, "end", then)
    began = time.monotonic()
    with pytest.raises((BrokenState, Conflict)) as failed:
        lifecycle.restart(settings, "kafka")
    assert time.monotonic() - began < 10
    assert failed.value.code == {"down": "PLATFORM_STOPPED", "killed": "PART_FAILED"}[how]
    assert "again and again" not in str(failed.value)


def test_nothing_is_started_again_where_nothing_runs(settings: Settings) -> None:
    with pytest.raises(BadInput, match=r"the platform doesn't run \[PART_NOT_RUNNING\]"):
        lifecycle.restart(settings, "speed")


@pytest.mark.parametrize("apart", ["process_group=0", "start_new_session=True"])
def test_stop_ends_children_that_went_apart(settings: Settings, apart: str) -> None:
    record = recorded(settings, part(settings, "parent", PARENT % apart))
    child = int(_printed(Path(record.log)))
    assert _stop_services.stop(settings) == ["parent"]
    assert not _lives(child)
    assert not _lives(record.pid)
    assert process_registry.read(settings) == {}


def test_stop_ends_children_whose_parent_was_killed(settings: Settings) -> None:
    record = recorded(settings, part(settings, "parent", PARENT % "process_group=0"))
    child = int(_printed(Path(record.log)))
    os.kill(record.pid, signal.SIGKILL)
    _wait_gone(record.pid)
    assert _lives(child)
    assert _stop_services.stop(settings) == ["parent"]
    assert not _lives(child)


@pytest.mark.parametrize("children_first", [True, False])
def test_a_part_that_is_stopped_after_its_children_does_not_see_them_fail(
    settings: Settings, children_first: bool
) -> None:
    made = part(settings, "watchful", WATCHFUL, children_first=children_first)
    record = recorded(settings, made)
    _printed(made.log)
    assert _stop_services.stop(settings) == ["watchful"]
    heard = "told after its child had ended" if children_first else "told before its child"
    assert made.log.read_text().splitlines() == ["up", heard]
    assert process_registry.family(record) == []


def test_a_child_that_waits_for_its_suspended_parent_gets_its_answer(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_stop_services, "LEFTOVER_SECONDS", 2.0)
    made = part(settings, "asked", WATCHFUL.replace(repr(SLEEPS), repr(ASKING)), children_first=True)
    recorded(settings, made)
    eventually(settings, lambda _: "child up" in made.log.read_text())
    assert _stop_services.stop(settings) == ["asked"]
    said = made.log.read_text()
    assert "answered" in said
    assert "told before its child" not in said


def test_a_stop_that_is_interrupted_leaves_nothing_suspended(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = part(settings, "watchful", WATCHFUL, children_first=True)
    record = recorded(settings, made)
    _printed(made.log)
    suspended = list[str]()

    def interrupted(*_: object) -> None:
        while (leader := record.process()) and leader.status() != psutil.STATUS_STOPPED:
            time.sleep(0.01)
        suspended.append("yes")
        raise KeyboardInterrupt

    monkeypatch.setattr(_stop_services, "_wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        _stop_services.stop(settings)
    assert suspended == ["yes"]
    _wait_gone(record.pid)
    assert not _lives(record.pid)


def test_the_supervisor_records_whose_children_are_stopped_first(
    settings: Settings, supervised: Callable[..., None]
) -> None:
    supervised(part(settings, "watchful", children_first=True), part(settings, "plain"))
    found = eventually(settings, lambda all_: state("watchful", "running")(all_) and state("plain", "running")(all_))
    assert {name: record.children_first for name, record in found.items()} == {"watchful": True, "plain": False}


def test_stop_kills_what_does_not_listen(settings: Settings) -> None:
    record = recorded(settings, part(settings, "stubborn", STUBBORN, grace=0.3))
    _printed(Path(record.log))
    _stop_services.stop(settings)
    assert not _lives(record.pid)


def test_stop_ends_what_is_forked_while_it_stops(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each process of this part leaves another one behind as it ends, as a worker does that begins a task."""
    record = recorded(settings, part(settings, "forking", FORKING))
    _printed(Path(record.log))
    monkeypatch.setattr(_stop_services, "LEFTOVER_SECONDS", 2.0)
    assert _stop_services.stop(settings) == ["forking"]
    assert process_registry.family(record) == []
    assert process_registry.read(settings) == {}


def test_what_outlives_its_kill_keeps_its_record(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    held = recorded(settings, part(settings, "a_held"), depth=0)
    recorded(settings, part(settings, "b_app"), depth=1)
    send = _stop_services._send
    monkeypatch.setattr(_stop_services, "LEFTOVER_SECONDS", 0.3)
    monkeypatch.setattr(_stop_services, "_send", lambda p, number: None if p.pid == held.pid else send(p, number))
    with pytest.raises(TryAgain, match="a_held") as refused:
        _stop_services.stop(settings)
    assert (refused.value.code, set(process_registry.read(settings))) == ("STILL_RUNNING", {"a_held"})
    assert _lives(held.pid)
    monkeypatch.undo()
    assert _stop_services.stop(settings) == ["a_held"]
    assert process_registry.read(settings) == {}


def test_stop_leaves_a_process_alone_that_took_over_a_pid(settings: Settings) -> None:
    stranger = subprocess.Popen([sys.executable, "-c", SLEEPS], start_new_session=True)
    try:
        mine = Record("kafka", "running", stranger.pid, created(stranger.pid) - 60, (), None, "", 0, 15, 0.2)
        process_registry.write(settings, mine)
        assert _stop_services.stop(settings) == []
        assert stranger.poll() is None
        assert process_registry.read(settings) == {}
    finally:
        stranger.kill()
        stranger.wait()


@pytest.mark.parametrize("container", [False, True])
def test_a_session_of_an_earlier_boot_is_a_stranger_s(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, container: bool
) -> None:
    """Its number was given again, and its leader has ended: what lives in it is not ours."""
    stranger = recorded(settings, part(settings, "parent", PARENT % "process_group=0"))
    child = int(_printed(Path(stranger.log)))
    try:
        os.kill(stranger.pid, signal.SIGKILL)
        _wait_gone(stranger.pid)
        boot, _, ticks = process_registry.birth(os.getpid()).partition(":")
        before = replace(stranger, name="kafka", birth=f"00000000-0000-0000-0000-000000000000:{ticks}")
        if container:  # its first process is younger than what an earlier one has recorded
            before, born = replace(before, birth=f"{boot}:{ticks}"), process_registry.birth
            first = f"{boot}:{int(ticks) + 1}"
            monkeypatch.setattr(process_registry, "birth", lambda pid: first if pid == 1 else born(pid))
        process_registry.remove(settings, "parent")
        process_registry.write(settings, before)
        assert process_registry.family(before) == []
        assert "kafka" in lifecycle._clean_up(settings)[0]
        process_registry.write(settings, before)
        assert _stop_services.stop(settings) == []
        assert _lives(child)
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_process_of_a_session_is_found_though_its_pid_was_seen_before(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """psutil's own list keeps the processes of its last call, and takes a new one for that of the same pid."""
    record = recorded(settings, part(settings, "parent", PARENT % "process_group=0"))
    child = int(_printed(Path(record.log)))
    list(psutil.process_iter())
    former: Any = psutil.Process(child)
    former._ident = (child, -1.0)  # of the process that had this pid days ago
    monkeypatch.setitem(vars(psutil)["_pmap"], child, former)
    os.kill(record.pid, signal.SIGKILL)
    _wait_gone(record.pid)
    assert [_stop_services._alive(each) for each in process_registry.family(record)] == [True]
    _stop_services.stop(settings)
    assert not _lives(child)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_supervisor_that_is_killed_before_it_records_a_part_leaves_one_that_is_stopped(
    settings: Settings, supervised: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    launched = list[subprocess.Popen[bytes]]()

    def killed(made: Service) -> None:
        launched.append(launch(made))
        raise SystemExit  # of its thread

    monkeypatch.setattr(_supervisor, "launch", killed)
    parent = part(settings, "stream", PARENT % "process_group=0")
    supervised(parent)
    child = int(_printed(parent.log))
    threading.Thread(target=launched[0].wait, daemon=True).start()
    other = recorded(settings, part(settings, "log"))
    with pytest.raises(Conflict) as refused:
        lifecycle._clean_up(settings)
    assert (refused.value.code, refused.value.fields["parts"]) == ("HALF_STARTED", ["log", "stream"])
    assert {part.name: part.state for part in lifecycle.status(settings)} == {"log": "running", "stream": "dead"}
    assert set(_stop_services.stop(settings)) == {"stream", "log"}
    assert not any(map(_lives, (launched[0].pid, child, other.pid)))


def test_stop_goes_in_reverse_order_and_twice(settings: Settings) -> None:
    recorded(settings, part(settings, "a_database"), depth=0)
    recorded(settings, part(settings, "b_app"), depth=1)
    assert _stop_services.stop(settings) == ["b_app", "a_database"]
    assert _stop_services.stop(settings) == []


@pytest.mark.parametrize("stopped", [0, 1])
def test_stop_leaves_the_parts_of_another_project_alone(tmp_path: Path, stopped: int) -> None:
    """Whichever of two projects is stopped, the one that was started first or the other: its parts have equal names."""
    projects = [Settings(home=tmp_path / name) for name in ("shop", "bakery")]
    for settings in projects:
        for name in ("kafka", "landing"):
            recorded(settings, part(settings, name))
    other = projects[1 - stopped]
    before = process_registry.read(other)
    try:
        assert sorted(_stop_services.stop(projects[stopped])) == ["kafka", "landing"]
        assert process_registry.read(projects[stopped]) == {}
        assert process_registry.read(other) == before
        assert all(record.process() is not None for record in before.values())
    finally:
        assert sorted(_stop_services.stop(other)) == ["kafka", "landing"]


def test_live_leftovers_are_refused_dead_ones_tidied(settings: Settings) -> None:
    record = recorded(settings, part(settings, "kafka"))
    with pytest.raises(Conflict) as refused:
        lifecycle.start(settings, ["kafka"])
    assert refused.value.code == "HALF_STARTED"
    assert (refused.value.fields["parts"], refused.value.next_step) == (["kafka"], "anabranch down")
    assert record.process() is not None
    os.kill(record.pid, signal.SIGKILL)
    _wait_gone(record.pid)
    assert [part.state for part in lifecycle.status(settings)] == ["dead"]
    assert "kafka" in lifecycle._clean_up(settings)[0]
    assert process_registry.read(settings) == {}


def test_a_running_platform_that_lacks_a_part(settings: Settings) -> None:
    recorded(settings, part(settings, SUPERVISOR))
    with pytest.raises(Conflict) as refused:
        lifecycle.start(settings, ["postgres"])
    assert (refused.value.code, refused.value.fields["missing"]) == ("PLATFORM_RUNNING", ["postgres"])


def test_a_start_without_views_says_that_speed_is_not_started(settings: Settings, tmp_path: Path) -> None:
    bare = settings.model_copy(update={"project": tmp_path / "bare"})
    watching = replace(part(bare, SUPERVISOR), command=(*part(bare, SUPERVISOR).command, "kafka", "landing"))
    for made in (watching, part(bare, "kafka"), part(bare, "landing")):
        recorded(bare, made)
    notices = lifecycle.start(bare, ["kafka", "streams"])
    assert notices[0].startswith(f"no view is declared in {bare.views_folder}, so speed has nothing to run and is not")
    assert lifecycle.start(bare, ["kafka"]) == ["the platform is already running"]


def test_a_start_names_variables_that_the_projects_code_reads_and_does_not_get(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = settings.model_copy(update={"project": tmp_path / "bare"})
    file = bare.contracts_folder / "shop.py"
    file.parent.mkdir(parents=True)
    file.write_text('import os\nREGION = os.environ.get("SHOP_REGION", "x")\n')
    monkeypatch.setenv("SHOP_REGION", "eu")
    watching = replace(part(bare, SUPERVISOR), command=(*part(bare, SUPERVISOR).command, "kafka"))
    for made in (watching, part(bare, "kafka")):
        recorded(bare, made)
    notice, *others = lifecycle.start(bare, ["kafka"])
    assert "SHOP_REGION (spark_jobs/contracts/shop.py:2)" in notice
    assert notice.endswith('\nANABRANCH_PASS_ENV=["SHOP_REGION"]')
    assert others == ["the platform is already running"]


def test_an_unknown_part(settings: Settings) -> None:
    with pytest.raises(BadInput) as refused:
        lifecycle.start(settings, ["kafka; rm -rf /"])
    assert refused.value.code == "PART_UNKNOWN"


def test_a_record_that_is_torn_is_no_record(settings: Settings) -> None:
    settings.run.mkdir(parents=True)
    (settings.run / "kafka.json").write_text('{"name": "ka')
    (settings.run / "old.json").write_text('{"pid": 1}')
    assert process_registry.read(settings) == {}
    assert _stop_services.stop(settings) == []


def test_a_long_log_is_put_aside(settings: Settings) -> None:
    made = part(settings, "noisy", "print('new')")
    made.log.parent.mkdir(parents=True)
    with made.log.open("wb") as file:
        file.truncate(LOG_BYTES + 1)
    launch(made).wait()
    assert made.log.read_text() == "new\n"
    assert made.log.with_suffix(".log.1").stat().st_size == LOG_BYTES + 1


def test_depths() -> None:
    here = Path()
    a, b, c = (
        Service(n, ("true",), here, here, depends_on=d) for n, d in (("a", ("x",)), ("b", ("a",)), ("c", ("a", "b")))
    )
    assert depths((c, b, a)) == {"a": 0, "b": 1, "c": 2}


def _printed(log: Path) -> str:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if log.exists() and (text := log.read_text().strip()):
            return text
        time.sleep(0.02)
    raise AssertionError(f"{log} stays empty")


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _wait_gone(pid: int) -> None:
    deadline = time.monotonic() + 10
    while _lives(pid) and time.monotonic() < deadline:
        time.sleep(0.02)


def test_a_part_whose_probe_raises_is_ended_before_the_next_one_starts(
    settings: Settings, supervised: Callable[..., None]
) -> None:
    """Without a record nothing could stop it, and it would work beside its successor."""
    pids: list[int] = []

    def ready(_: float) -> bool:
        pids.append(process_registry.read(settings)["odd"].pid)
        if len(pids) == 1:
            raise RuntimeError("half an answer")
        return True

    supervised(part(settings, "odd", ready=ready))
    assert "half an answer" in eventually(settings, state("odd", "waiting"))["odd"].detail
    assert not psutil.pid_exists(pids[0])
    assert eventually(settings, state("odd", "running"))["odd"].pid not in (0, pids[0])


def test_a_supervisor_that_cannot_be_recorded_does_not_run(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen

    def popen(_: object, **given: Any) -> subprocess.Popen[bytes]:
        started.append(real([sys.executable, "-c", "import time; time.sleep(600)"], **given))
        return started[-1]

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "Popen", popen)
        patch.setattr(process_registry, "write", full)
        with pytest.raises(OSError, match="no space left"):
            lifecycle._launch_supervisor(settings, [])
    assert started[0].poll() is not None


def test_a_supervisor_without_its_record_starts_nothing(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever started it was killed before writing it."""
    nobody = 2**22 + 1  # above the kernel's limit: what is recorded is stopped at the end
    monkeypatch.setattr(_supervisor, "RECORD_SECONDS", 0.3)
    monkeypatch.setattr(os, "getpid", lambda: nobody)
    assert not _supervisor._is_recorded(settings)
    process_registry.write(settings, Record(SUPERVISOR, "running", nobody, 0.0, (), None, "", 99, 15, 10.0))
    assert _supervisor._is_recorded(settings)
