"""Every failed read counts, whatever the clocks say, and whatever was recorded just before it."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest
from anabranch.core.settings import Settings
from anabranch.core.storage import DISK
from anabranch.lake.layout import VersionRef
from anabranch.operate.upgrade._places import place_of
from anabranch.serve import reader_log
from anabranch.serve.reader_log import LOGGED, LoggedRead, behind_reads, failed_reads, record_behind, record_failed

pytestmark = pytest.mark.unit
DAY_MS = 86_400_000


@pytest.fixture
def ref(tmp_path: Path) -> VersionRef:
    return VersionRef(Settings(home=tmp_path), "delays", 2)


def fail(ref: VersionRef, route: int, engine: str = "read", code: str = "CODE") -> None:
    record_failed(ref, "ann", code, engine=engine, route=route)


def counts(ref: VersionRef, since: int = 0) -> dict[tuple[int, str, str], int]:
    found = dict[tuple[int, str, str], int]()
    for read in failed_reads(ref, since):
        key = read.route, read.engine, read.code
        found[key] = found.get(key, 0) + read.count
    return found


def eventually(ref: VersionRef, expected: dict[tuple[int, str, str], int]) -> None:
    end = time.monotonic() + 10
    while counts(ref) != expected and time.monotonic() < end:
        time.sleep(0.05)
    assert counts(ref) == expected


def run(code: str, ref: VersionRef) -> None:
    arguments = [sys.executable, "-c", textwrap.dedent(code), str(ref.settings.home)]
    subprocess.run(arguments, check=True, timeout=60)


def folder(ref: VersionRef) -> Path:
    return ref.settings.home / "control" / "failed_reads" / ref.name / f"v{ref.version}"


def as_before(ref: VersionRef, number: int, route: int, moment_ms: float) -> None:
    """An entry of a process of the version before this one."""
    LOGGED.write(folder(ref) / f"{moment_ms:016.0f}-{number}", LoggedRead("bob", "OLD", "read", route))


def test_failures_are_kept_though_a_thousand_entries_are_dated_tomorrow(ref: VersionRef) -> None:
    for number in range(1_000):
        as_before(ref, number, 1, time.time() * 1000 + DAY_MS + number)
    for _ in range(5):
        fail(ref, 2)
    eventually(ref, {(1, "read", "OLD"): 999, (2, "read", "CODE"): 5})
    assert counts(ref, 2) == {(2, "read", "CODE"): 5}


def test_the_oldest_routes_go_first(ref: VersionRef, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_log, "_KEPT", 3)
    as_before(ref, 7, 9, time.time() * 1000 - DAY_MS)
    for route in (12, 100, 11):
        fail(ref, route)
    assert sorted(read.route for read in failed_reads(ref)) == [11, 12, 100]
    fail(ref, 2)  # of a reader that is held: it doesn't delete its own entry, nor that of the newest route
    assert sorted(read.route for read in failed_reads(ref)) == [2, 12, 100]


def test_a_failure_right_after_one_of_another_route_engine_or_code_is_written_at_once(ref: VersionRef) -> None:
    fail(ref, 1)
    fail(ref, 2)
    fail(ref, 2, engine="duckdb")
    fail(ref, 2, code="OTHER")
    once = {(1, "read", "CODE"): 1, (2, "read", "CODE"): 1, (2, "duckdb", "CODE"): 1, (2, "read", "OTHER"): 1}
    assert counts(ref) == once


def test_what_is_held_back_is_written_though_no_other_failure_follows(ref: VersionRef) -> None:
    for _ in range(20):
        fail(ref, 2)
    assert counts(ref) == {(2, "read", "CODE"): 1}
    eventually(ref, {(2, "read", "CODE"): 20})
    assert len(list(folder(ref).iterdir())) == 1


def test_what_is_held_back_is_written_when_the_process_ends(ref: VersionRef) -> None:
    code = """
        import sys
        from anabranch.core.settings import Settings
        from anabranch.lake.layout import VersionRef
        from anabranch.serve.reader_log import record_failed
        for _ in range(20):
            record_failed(VersionRef(Settings(home=sys.argv[1]), "delays", 2), "ann", "CODE", engine="read", route=2)
    """
    run(code, ref)
    assert counts(ref) == {(2, "read", "CODE"): 20}


def test_processes_with_the_same_id_and_clock_have_files_of_their_own(
    ref: VersionRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Containers that share a home: the first process of each has the id 1."""
    monkeypatch.setattr(os, "getpid", lambda: 1)
    monkeypatch.setattr(time, "time", lambda: 1_000_000.0)
    for _ in range(2):
        monkeypatch.setattr(reader_log, "_tallies", type(reader_log._tallies)())
        fail(ref, 2)
    assert counts(ref) == {(2, "read", "CODE"): 2}


def test_a_forked_process_counts_only_its_own_reads(ref: VersionRef) -> None:
    code = """
        import os, sys
        from anabranch.core.settings import Settings
        from anabranch.lake.layout import VersionRef
        from anabranch.serve import reader_log
        def fail():
            ref = VersionRef(Settings(home=sys.argv[1]), "delays", 2)
            reader_log.record_failed(ref, "ann", "CODE", engine="read", route=2)
        fail()
        with reader_log._lock:  # as another thread may have it at that moment
            child = os.fork()
        if not child:
            fail()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    """
    run(code, ref)
    assert counts(ref) == {(2, "read", "CODE"): 2}


def test_threads_lose_no_failure(ref: VersionRef) -> None:
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: fail(ref, 1 + number % 2), range(400)))
    eventually(ref, {(1, "read", "CODE"): 200, (2, "read", "CODE"): 200})


def test_a_failure_that_could_not_be_written_is_in_the_next_file(
    ref: VersionRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(type(DISK), "write", full)
        fail(ref, 2)
        assert failed_reads(ref) == []
    fail(ref, 2)
    eventually(ref, {(2, "read", "CODE"): 2})


def slow_disk(monkeypatch: pytest.MonkeyPatch, name: str) -> tuple[Event, Event]:
    """Writes of files whose names begin so wait. Events: one waits; it may go on."""
    waits, goes_on, write = Event(), Event(), type(DISK).write

    def slow(disk: object, path: Path, content: bytes) -> None:
        if path.name.startswith(name):
            waits.set()
            assert goes_on.wait(30)
        write(DISK, path, content)

    monkeypatch.setattr(type(DISK), "write", slow)
    return waits, goes_on


def test_a_slow_disk_makes_no_other_read_wait(ref: VersionRef, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the one that writes; what others count meanwhile isn't lost, though it is due while the disk is slow."""
    waits, goes_on = slow_disk(monkeypatch, "0000000001-")
    with ThreadPoolExecutor(2) as threads:
        try:
            first = threads.submit(fail, ref, 1)
            assert waits.wait(10)
            for route in (2, 1, 1):
                threads.submit(fail, ref, route).result(timeout=5)
            time.sleep(1.5 * reader_log._SECONDS)
            threads.submit(fail, ref, 1).result(timeout=5)
            assert (first.done(), counts(ref)) == (False, {(2, "read", "CODE"): 1})
        finally:
            goes_on.set()
    eventually(ref, {(1, "read", "CODE"): 4, (2, "read", "CODE"): 1})
    assert len(list(folder(ref).iterdir())) == 2


def test_what_was_counted_while_the_disk_was_slow_is_written_when_the_process_ends(ref: VersionRef) -> None:
    code = """
        import sys, threading, time
        from anabranch.core.settings import Settings
        from anabranch.core.storage import DISK
        from anabranch.lake.layout import VersionRef
        from anabranch.serve.reader_log import record_failed
        waits, write = threading.Event(), type(DISK).write
        def slow(disk, path, content):
            waits.set()
            time.sleep(0.5)
            write(disk, path, content)
        type(DISK).write = slow
        def fail():
            record_failed(VersionRef(Settings(home=sys.argv[1]), "delays", 2), "ann", "CODE", engine="read", route=2)
        threading.Thread(target=fail, daemon=True).start()
        waits.wait()
        fail()
    """
    run(code, ref)
    assert counts(ref) == {(2, "read", "CODE"): 2}


def test_files_are_listed_for_a_new_one_and_then_once_a_minute(
    ref: VersionRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    listings, names = list[Path](), type(DISK).names
    monkeypatch.setattr(reader_log, "_SECONDS", 0.0)

    def counting(disk: object, path: Path) -> list[str]:
        listings.append(path)
        return names(DISK, path)

    monkeypatch.setattr(type(DISK), "names", counting)
    for _ in range(20):
        fail(ref, 2)
    fail(ref, 3)
    assert listings == [folder(ref)] * 2
    monkeypatch.setattr(reader_log, "_PRUNE_SECONDS", 0.0)
    fail(ref, 3)
    assert listings == [folder(ref)] * 3


def test_many_files_of_one_process_are_counted_in_bounded_memory(
    ref: VersionRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_log, "_MAX_TALLIES", 3)
    for route in (1, 2, 3, 4, 5, 1, 1, 2):
        fail(ref, route)
    assert len(reader_log._tallies) == 3
    eventually(ref, {(1, "read", "CODE"): 3, (2, "read", "CODE"): 2} | {(n, "read", "CODE"): 1 for n in (3, 4, 5)})


def test_reads_behind_have_one_file_whatever_their_cuts(ref: VersionRef) -> None:
    for epoch in range(10):
        record_behind(ref, "ann", f"flights@{epoch}", route=3)
    end = time.monotonic() + 10
    while (found := behind_reads(ref, 3)) and found[0].count < 10 and time.monotonic() < end:
        time.sleep(0.05)
    assert found == [LoggedRead("ann", "flights@9", "", 3, 10)]


def test_entries_of_older_versions_are_read(ref: VersionRef) -> None:
    folder(ref).mkdir(parents=True)
    (folder(ref) / "0001795601681962-1449").write_text('{"reader": "carla", "code": "READING_EXPIRED"}')
    as_before(ref, 2, 4, time.time() * 1000)
    fail(ref, 5)
    assert [(read.code, read.route, read.count) for read in failed_reads(ref)] == [
        ("READING_EXPIRED", 0, 1),
        ("OLD", 4, 1),
        ("CODE", 5, 1),
    ]
    assert [read.route for read in failed_reads(ref, 4)] == [4, 5]


def test_each_is_a_control_file_that_upgrades_know(ref: VersionRef) -> None:
    as_before(ref, 2, 4, time.time() * 1000)
    fail(ref, 5)
    places = [place_of(file.relative_to(ref.settings.home).as_posix()) for file in folder(ref).iterdir()]
    assert [place.file for place in places if place] == [LOGGED, LOGGED]


@pytest.fixture(autouse=True)
def _no_tallies_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_log, "_tallies", type(reader_log._tallies)())
