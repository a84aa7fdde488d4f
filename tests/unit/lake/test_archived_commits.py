"""A log in two folders: each version is kept, the table is whole at any time, and who is behind gets what it needs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from anabranch.lake import CommitMetadata, commit_history, latest_commit, open_table
from anabranch.lake.commits import append, create
from anabranch.lake.cut import Cut, Position
from anabranch.lake.files import stage_arrow
from anabranch.lake.log.archived_commits import ARCHIVE, LOG, archive_commits, log_files, restore_commits, versions
from anabranch.lake.log.commit_log import changes
from deltalake import DeltaTable

pytestmark = pytest.mark.unit
SCHEMA = pa.schema([("n", pa.int64())])
COMMITS = 23
"""With a checkpoint behind each fifth: at 4, 9, 14 and 19."""


class Killed(BaseException):
    """As a SIGKILL: nothing catches it."""


def note(number: int) -> CommitMetadata:
    return CommitMetadata("writer", f"b{number}", Cut({"topic": Position(number, {0: number})}))


def add(table: DeltaTable, number: int) -> None:
    append(
        table,
        stage_arrow(pa.table({"n": [number]}, SCHEMA), str(table.table_uri)[7:], f"b{number}", None),
        note(number),
    )


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    made = create(str(tmp_path / "table"), SCHEMA, [], note(0), {"delta.checkpointInterval": "5"})
    for number in range(1, COMMITS + 1):
        add(made, number)
    return made


def folder(table: DeltaTable) -> Path:
    return Path(table.table_uri.removeprefix("file://"))


def held(table: DeltaTable, version: int | None = None) -> list[int]:
    opened = DeltaTable(table.table_uri, version=version)
    return sorted(pa.table(opened.to_pyarrow_table())["n"].to_pylist())


def in_log(table: DeltaTable) -> list[int]:
    return sorted(int(path.stem) for path in (folder(table) / LOG).glob("*.json") if path.stem.isdecimal())


def test_the_log_begins_at_the_checkpoint_before_the_newest_one(table: DeltaTable) -> None:
    assert archive_commits(folder(table), None) > 0
    assert in_log(table) == list(range(14, COMMITS + 1))
    assert held(table) == list(range(1, COMMITS + 1))
    assert held(table, 17) == list(range(1, 18))
    assert archive_commits(folder(table), None) == 0


def test_who_reads_commits_finds_them_in_both_folders(table: DeltaTable) -> None:
    before = [(each.version, each.note) for each in commit_history(table)]
    made = [changes(table, version) for version in range(COMMITS + 1)]
    archive_commits(folder(table), None)
    again = open_table(str(folder(table)))
    assert again is not None
    assert [(each.version, each.note) for each in commit_history(again)] == before
    assert [changes(again, version) for version in range(COMMITS + 1)] == made
    assert versions(folder(table)) == list(range(COMMITS + 1))


@pytest.mark.parametrize(("needed", "first"), [(17, 14), (14, 14), (13, 9), (9, 9), (4, 4), (3, 0), (0, 0), (99, 14)])
def test_nothing_goes_that_a_stream_needs(table: DeltaTable, needed: int, first: int) -> None:
    archive_commits(folder(table), needed)
    assert in_log(table)[0] == first
    assert held(table, max(first, min(needed, COMMITS))) == list(range(1, max(first, min(needed, COMMITS)) + 1))


@pytest.mark.parametrize("needed", [22, 14, 13, 11, 9, 4, 3, 0])
def test_who_is_behind_gets_what_it_needs_back(table: DeltaTable, needed: int) -> None:
    archive_commits(folder(table), None)
    restore_commits(folder(table), needed)
    log = in_log(table)
    assert log == list(range(log[0], COMMITS + 1))
    assert held(table, needed) == list(range(1, needed + 1))
    assert restore_commits(folder(table), needed) == 0
    archive_commits(folder(table), None)
    assert in_log(table)[0] == 14


def test_a_table_of_which_nothing_was_set_aside_is_left_alone(table: DeltaTable, tmp_path: Path) -> None:
    assert restore_commits(folder(table), 3) == 0
    small = create(str(tmp_path / "small"), SCHEMA, [], note(0))
    assert archive_commits(folder(small), None) == 0
    assert not (folder(small) / ARCHIVE).exists()


@pytest.mark.parametrize("at", [1, 2, 7, 15, 25])
@pytest.mark.parametrize("way", ["aside", "back"])
def test_a_kill_in_between_leaves_a_whole_table(
    table: DeltaTable, monkeypatch: pytest.MonkeyPatch, at: int, way: str
) -> None:
    files, calls, rename = {path.name for _, path in log_files(folder(table))}, [0], Path.rename

    def dying(path: Path, target: Path) -> Path:
        calls[0] += 1
        if calls[0] == at:
            raise Killed
        return rename(path, target)

    if way == "back":
        archive_commits(folder(table), None)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", dying)
        with pytest.raises(Killed):
            archive_commits(folder(table), None) if way == "aside" else restore_commits(folder(table), 3)
    assert held(table) == list(range(1, COMMITS + 1))
    assert {path.name for _, path in log_files(folder(table))} == files
    assert versions(folder(table)) == list(range(COMMITS + 1))
    restore_commits(folder(table), 3)
    assert held(table, 3) == [1, 2, 3]
    archive_commits(folder(table), None)
    assert in_log(table) == list(range(14, COMMITS + 1))


@pytest.mark.parametrize("at", [0, 3, 15, 21])
def test_a_table_that_was_opened_before_goes_on(table: DeltaTable, at: int) -> None:
    opened = DeltaTable(table.table_uri, version=at)
    archive_commits(folder(table), None)
    add(table, COMMITS + 1)
    opened.update_incremental()
    assert opened.version() == COMMITS + 1
    assert sorted(pa.table(opened.to_pyarrow_table())["n"].to_pylist()) == list(range(1, COMMITS + 2))
    committed = latest_commit(opened)
    assert committed is not None
    assert committed.note.batch == f"b{COMMITS + 1}"
