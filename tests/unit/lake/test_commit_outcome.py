"""A commit that is in, while its writer is told that it failed: faults of the disk behind the commit, for each kind."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from anabranch.core.errors import BrokenState, Conflict, TryAgain
from anabranch.core.storage import DISK
from anabranch.lake import latest_commit, open_table
from anabranch.lake.commits import append
from anabranch.lake.log.delta_tables import delta_table
from anabranch.lake.optimistic import until_committed
from deltalake import DeltaTable
from support.commit_kinds import CREATE, FIRST, KINDS, SECOND, begun, committed, log_of, moved, note, read, staged
from support.object_store import Faults, ObjectStore, object_store
from support.our_packages import inside, modules

pytestmark = pytest.mark.unit


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    return begun(str(tmp_path / "table"))


def checkpoint_fails(table: DeltaTable) -> None:
    """Something that can't be replaced has the name of the next checkpoint."""
    (log_of(table) / f"{table.version() + 1:020d}.checkpoint.parquet" / "x").mkdir(parents=True)


def checksum_fails(table: DeltaTable) -> None:
    (log_of(table) / f"{table.version() + 1:020d}.crc" / "x").mkdir(parents=True)


@pytest.mark.parametrize("fault", [checkpoint_fails, checksum_fails])
@pytest.mark.parametrize("kind", KINDS)
def test_its_writer_is_told_of_success(table: DeltaTable, kind: str, fault: Callable[[DeltaTable], None]) -> None:
    commit, expected = KINDS[kind]
    fault(table)

    assert commit(table, note(kind)) == 2

    found = DeltaTable(table.table_uri)
    assert found.version() == 2
    assert read(found) == expected
    known = latest_commit(table.table_uri)
    assert known is not None
    assert known.note == note("first" if kind == "move" else kind)


@pytest.mark.parametrize("name", ["checkpoint.parquet", "crc"])
def test_one_that_creates_the_table_is_told_of_success_too(tmp_path: Path, name: str) -> None:
    uri = tmp_path / "table"
    (uri / "_delta_log" / f"{0:020d}.{name}" / "x").mkdir(parents=True)
    begun(str(uri))
    assert delta_table(uri).version() == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_that_can_not_be_read_behind_its_commit_is_no_failed_commit(
    table: DeltaTable, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A compaction whose writer believed it would delete the files that it has just put into the table."""

    def unreadable(_: DeltaTable) -> None:
        raise OSError("Too many open files (os error 24)")

    commit, expected = KINDS[kind]
    monkeypatch.setattr(DeltaTable, "update_incremental", unreadable)
    assert commit(table, note(kind)) == 2
    assert read(DeltaTable(table.table_uri)) == expected


@pytest.mark.parametrize("kind", ["move", "rewrite"])
def test_a_disk_that_takes_no_commit_is_named(table: DeltaTable, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    def full(*_: Any, **__: Any) -> bool:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(type(DISK), "create", full)
    with pytest.raises(BrokenState) as told:
        KINDS[kind][0](table, note(kind))
    assert told.value.code == "COMMIT_UNWRITTEN"
    assert DeltaTable(table.table_uri).version() == 1


@pytest.mark.parametrize("lost", [OSError("the server has gone"), FileExistsError("somebody has made it")])
def test_a_link_that_was_made_and_whose_answer_got_lost(
    table: DeltaTable, monkeypatch: pytest.MonkeyPatch, lost: OSError
) -> None:
    """As a network's file system answers a repeat of its own request."""
    link = os.link

    def unanswered(source: str, target: str) -> None:
        link(source, target)
        raise lost

    monkeypatch.setattr(os, "link", unanswered)
    assert moved(table, note("move")) == 2
    assert read(DeltaTable(table.table_uri)) == [FIRST]


@pytest.mark.parametrize("kind", [CREATE, *KINDS])
def test_an_answer_of_an_object_store_that_got_lost(tmp_path: Path, kind: str) -> None:
    with object_store(tmp_path) as store:
        version, expected = prepared(store, kind)
        before = store.failures
        with store.failing(Faults(lost=1.0, of=f"/{version:020d}.json")):
            assert committed(kind, str(tmp_path / "table")) == version
        assert store.failures == before + 1
        is_in_once(tmp_path / "table", kind, version, expected)


@pytest.mark.parametrize("kind", [CREATE, *KINDS])
def test_an_answer_that_got_lost_of_an_object_store_that_can_not_be_read_behind_it(tmp_path: Path, kind: str) -> None:
    """The commit is in, and its writer can't know: nothing is added twice, and nothing is removed."""
    with object_store(tmp_path) as store:
        version, expected = prepared(store, kind)
        with (
            store.failing(Faults(lost=1.0, unread=1.0, of=f"/{version:020d}.json", afterwards=True)),
            pytest.raises(TryAgain) as told,
        ):
            committed(kind, str(tmp_path / "table"))
        assert told.value.code == "COMMIT_UNKNOWN"
        is_in_once(tmp_path / "table", kind, version, expected)


@pytest.mark.parametrize("kind", [CREATE, *KINDS])
def test_an_object_store_that_takes_no_commit_has_none(tmp_path: Path, kind: str) -> None:
    with object_store(tmp_path) as store:
        version, _ = prepared(store, kind)
        with (
            store.failing(Faults(refused=1.0, of=f"/{version:020d}.json")),
            pytest.raises(BrokenState) as told,
        ):
            committed(kind, str(tmp_path / "table"))
        assert told.value.code == "COMMIT_UNWRITTEN"
        found = open_table(str(tmp_path / "table"))
        assert (None if found is None else found.version()) == (None if kind == CREATE else 1)


@pytest.mark.parametrize("kind", KINDS)
def test_another_writer_of_an_object_store_that_is_quicker_keeps_its_commit(tmp_path: Path, kind: str) -> None:
    with object_store(tmp_path) as store:
        prepared(store, kind)
        stale = delta_table(tmp_path / "table")
        another = delta_table(tmp_path / "table")
        append(another, staged(another, SECOND), note("another"))
        with pytest.raises(Conflict) as told:
            KINDS[kind][0](stale, note(kind))
        assert told.value.code == "TABLE_MOVED"
        found = delta_table(tmp_path / "table")
        assert (found.version(), read(found)) == (2, [FIRST, SECOND])


def test_of_creators_of_an_object_store_that_begin_at_once_one_makes_the_table(tmp_path: Path) -> None:
    with object_store(tmp_path), ThreadPoolExecutor(6) as pool:
        assert [*pool.map(lambda _: committed(CREATE, str(tmp_path / "table")), range(6))] == [0] * 6
        assert delta_table(tmp_path / "table").version() == 0


@cache
def files_of_a_table() -> dict[str, bytes]:
    """A table at version 1, by its files: a store needs long for making one."""
    with TemporaryDirectory() as folder:
        begun(folder)
        return {str(file.relative_to(folder)): file.read_bytes() for file in Path(folder).rglob("*") if file.is_file()}


def prepared(store: ObjectStore, kind: str) -> tuple[int, list[dict[str, Any]]]:
    """The version that a commit of this kind will make, and the rows of its table then."""
    if kind == CREATE:
        return 0, []
    for name, content in files_of_a_table().items():
        store.write(store.folder / "table" / name, content)
    return 2, KINDS[kind][1]


def is_in_once(uri: Path, kind: str, version: int, expected: list[dict[str, Any]]) -> None:
    found = delta_table(uri)
    assert (found.version(), read(found)) == (version, expected)
    known = latest_commit(str(uri))
    assert known is not None
    assert known.note == note("first" if kind == "move" else kind)


def test_of_writers_whose_answers_get_lost_each_row_is_in_once_or_its_writer_knows(tmp_path: Path) -> None:
    written, refused, unknown = list[int](), list[int](), list[int]()

    def write(number: int) -> None:
        row = {"k": str(number), "n": number, "day": FIRST["day"]}

        def attempt() -> int:
            table = delta_table(tmp_path / "table")
            return append(table, staged(table, row), note(str(number)))

        try:
            until_committed("a test", attempt, tries=50)
        except (TryAgain, BrokenState) as error:
            {"COMMIT_UNKNOWN": unknown, "COMMIT_UNWRITTEN": refused}[error.code].append(number)
        else:
            written.append(number)

    with object_store(tmp_path) as store:
        begun(str(tmp_path / "table"))
        with store.failing(Faults(lost=0.25, refused=0.25, of=".json")), ThreadPoolExecutor(3) as pool:
            list(pool.map(write, range(100, 130)))
        found = [row["n"] for row in read(delta_table(tmp_path / "table"))][1:]
    assert len(found) == len(set(found))
    assert set(written) <= set(found) <= {*written, *unknown}
    assert len(written) + len(refused) + len(unknown) == 30
    assert written
    assert refused


@pytest.mark.parametrize("kind", KINDS)
def test_where_the_log_can_not_be_read_nobody_knows(table: DeltaTable, kind: str) -> None:
    """The next version's name leads nowhere: it is taken, and can't be read."""
    commit, _ = KINDS[kind]
    before = {path for path in Path(table.table_uri.removeprefix("file://")).rglob("*.parquet") if path.is_file()}
    torn = log_of(table) / f"{table.version() + 1:020d}.json"
    torn.mkdir()

    with pytest.raises(TryAgain) as told:
        commit(table, note(kind))

    assert told.value.code == "COMMIT_UNKNOWN"
    assert "unknown" in told.value.state
    assert all(path.exists() for path in before)


@pytest.mark.parametrize("kind", KINDS)
def test_the_commit_of_another_is_not_taken_for_its_own(table: DeltaTable, kind: str) -> None:
    """Even where it says the same of itself, but for a move."""
    commit, _ = KINDS[kind]
    other = DeltaTable(table.table_uri)
    append(other, staged(other, SECOND), note(kind))
    checkpoint_fails(other)

    with pytest.raises(Conflict) as told:
        commit(table, note(kind))

    assert told.value.code == "TABLE_MOVED"
    assert DeltaTable(table.table_uri).version() == 2


ASKING = {
    "core/errors.py": "tells the command line and the page that a repeat helps",
    "lake/log/commit_errors.py": "raises it",
    "lake/optimistic.py": "the loop",
    "change/replay/runner.py": "its rounds catch up with the stream first, also after REPLAY_BEHIND and DAYS_TOUCHED, "
    "save the state, look for a cancel, and end with the last error itself: TABLE_BUSY would hide which of the three",
    "compute/speed/_large_merge.py": "reads its files again where a compaction was quicker; after any other commit "
    "its micro-batch must be decided anew, from the table's newest epoch, which is its stream's work",
    "compute/speed/service.py": "no loop: it only says how soon a stream that has ended starts again, and its start "
    "reads the table; a retry of the commit would keep a decision that a replay has made wrong",
}
"""Who tells TABLE_MOVED apart, and why that isn't ``until_committed``."""


def test_there_is_one_loop_that_decides_again() -> None:
    assert {inside(file) for file in modules().values() if '"TABLE_MOVED"' in file.read_text()} == {*ASKING}


@pytest.mark.parametrize("busy", [2, 5])
def test_another_writer_that_is_quicker_is_decided_upon_again(table: DeltaTable, busy: int) -> None:
    seen: list[int] = []

    def attempt() -> int:
        table.update_incremental()
        seen.append(table.version())
        if len(seen) <= busy:
            other = DeltaTable(table.table_uri)
            append(other, staged(other, SECOND), note("other"))
        return append(table, staged(table, SECOND), note("own"))

    if busy < 5:
        assert until_committed("a test", attempt) == 4
        assert seen == [1, 2, 3]
        return
    with pytest.raises(TryAgain) as told:
        until_committed("a test", attempt)
    assert (told.value.code, told.value.fields["writer"], len(seen)) == ("TABLE_BUSY", "a test", 5)
