"""What a commit promises: exactly behind the version read, exactly the named partitions, a repeat changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from anabranch.core.errors import BrokenState, Conflict
from anabranch.core.storage import storage_of
from anabranch.lake import CommitMetadata, commit_history, latest_commit
from anabranch.lake.commits import append, create, replace, upsert, widen
from anabranch.lake.cut import Cut, Position
from anabranch.lake.files import StagedFile, stage_arrow
from anabranch.lake.log.delta_tables import delta_table, folder_of
from anabranch.lake.log.version_checksum import prepare
from deltalake import DeltaTable

pytestmark = pytest.mark.unit

QUOTED = 'a "quoted" key'
SCHEMA = pa.schema([(QUOTED, pa.string()), ("n", pa.int64()), ("day", pa.date32())])
ONE, TWO, THREE = (date(2013, 1, d) for d in (1, 2, 3))


def note(batch: str = "0", **extra: Any) -> CommitMetadata:
    return CommitMetadata("test/writer", batch, Cut({"flights": Position(3, {0: 7, 11: 2**40})}), "print", extra)


def stage(uri: str, rows: Sequence[tuple[str | None, int | None, date | None]]) -> list[StagedFile]:
    return stage_arrow(arrow(rows), uri, uuid4().hex, "day")


def arrow(rows: Sequence[tuple[str | None, int | None, date | None]]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def rows_of(table: DeltaTable | str) -> list[tuple[Any, ...]]:
    read = delta_table(table) if isinstance(table, str) else table
    found = read.to_pyarrow_table(columns=SCHEMA.names).to_pylist()
    return sorted((tuple(row[name] for name in SCHEMA.names) for row in found), key=str)


@pytest.fixture
def table(place: Path) -> DeltaTable:
    return first_commits(place)


def first_commits(place: Path) -> DeltaTable:
    made = create(str(place / "table"), SCHEMA, ["day"], note())
    append(made, stage(uri_of(made), [("a", 1, ONE), ("b", 2, TWO), (None, None, None)]), note("1"))
    return made


def uri_of(table: DeltaTable) -> str:
    return str(folder_of(table))


def log_file(table: DeltaTable, version: int, kind: str) -> Path:
    return folder_of(table) / "_delta_log" / f"{version:020d}.{kind}"


def text_of(file: Path) -> str:
    return storage_of(file).read(file).decode()


def losing(write: str, stale: DeltaTable, staged: list[StagedFile]) -> None:
    match write:
        case "append":
            append(stale, staged, note("late"))
        case "replace":
            replace(stale, staged, note("late"), ("day", ["2013-01-01"]))
        case "replace everything":
            replace(stale, staged, note("late"), None)
        case "widen":
            widen(stale, SCHEMA.append(pa.field("more", pa.string())), note("late"))
        case _:
            upsert(stale, arrow([("a", 9, ONE)]), [QUOTED], note("late"), "day")


@pytest.mark.parametrize("write", ["append", "replace", "replace everything", "upsert"])
def test_the_loser_of_a_race_writes_nothing(table: DeltaTable, write: str) -> None:
    uri = uri_of(table)
    stale = delta_table(uri)
    append(table, stage(uri, [("winner", 5, ONE)]), note("2"))
    before = rows_of(uri)
    with pytest.raises(Conflict) as caught:
        losing(write, stale, stage(uri, [("loser", 6, ONE)]))
    assert caught.value.code == "TABLE_MOVED"
    assert rows_of(uri) == before
    committed = latest_commit(uri)
    assert committed is not None
    assert (committed.version, committed.note.batch) == (2, "2")
    # Having read again, the same writer gets through, directly behind the winner.
    stale.update_incremental()
    losing(write, stale, stage(uri, [("loser", 6, ONE)]))
    committed = latest_commit(uri)
    assert committed is not None
    assert (committed.version, committed.note.batch) == (3, "late")


def test_a_loser_leaves_no_checksum_that_contradicts_the_winner(table: DeltaTable) -> None:
    uri = uri_of(table)
    stale = delta_table(uri)
    append(table, stage(uri, [("w", 5, ONE), ("x", 5, TWO)]), note("2"))
    with pytest.raises(Conflict):
        append(stale, stage(uri, [("loser", 6, ONE)]), note("late"))
    left = log_file(table, 2, "crc")
    assert not storage_of(left).exists(left) or f'"numFiles": {len(table.file_uris())}' in text_of(left)
    # The next append counts for itself, whatever is left.
    append(table, stage(uri, [("y", 6, ONE)]), note("3"))
    assert f'"numFiles": {len(table.file_uris())}' in text_of(log_file(table, 3, "crc"))


def test_replace_touches_only_the_partitions_it_names(table: DeltaTable) -> None:
    replace(table, stage(uri_of(table), [("A", 10, ONE)]), note("2"), ("day", ["2013-01-01", "2013-01-03"]))
    assert rows_of(table) == sorted([("A", 10, ONE), ("b", 2, TWO), (None, None, None)], key=str)


def test_a_named_partition_without_files_becomes_empty(table: DeltaTable) -> None:
    replace(table, [], note("2"), ("day", ["2013-01-01", "2013-01-02"]))
    assert rows_of(table) == [(None, None, None)]
    replace(table, [], note("3"), ("day", []))
    assert rows_of(table) == [(None, None, None)]
    replace(table, [], note("4"), None)
    assert rows_of(table) == []


def test_files_of_a_partition_that_is_not_named_are_refused(table: DeltaTable) -> None:
    before = rows_of(table)
    for strays in ([("s", 1, THREE)], [("s", 1, None)]):
        with pytest.raises(BrokenState) as caught:
            replace(table, stage(uri_of(table), strays), note("2"), ("day", ["2013-01-01"]))
        assert caught.value.code == "STRAY_PARTITION"
    assert (rows_of(uri_of(table)), table.version()) == (before, 1)


def test_an_upsert_that_is_repeated_changes_nothing(table: DeltaTable) -> None:
    changed = arrow([("a", 7, ONE), ("new", 8, ONE), (None, 9, None)])
    for repeat in range(2):
        upsert(table, changed, [QUOTED], note(f"u{repeat}"), "day")
        assert rows_of(uri_of(table)) == sorted(
            [("a", 7, ONE), ("b", 2, TWO), ("new", 8, ONE), (None, 9, None)], key=str
        )
    upsert(table, changed.slice(0, 0), [QUOTED], note("nothing"), "day")
    committed = latest_commit(table)
    assert committed is not None
    assert (committed.note.batch, committed.version, len(rows_of(table))) == ("nothing", 4, 4)


@pytest.mark.parametrize("extra", [{}, {"watermark_us": None, "text": "ü \"'\u0000\n{{ x }}", "n": 2**60, "a": [{}]}])
def test_a_note_comes_back_as_it_was(table: DeltaTable, extra: Mapping[str, Any]) -> None:
    append(table, [], note("same", **extra))
    committed = latest_commit(uri_of(table))
    assert committed is not None
    assert committed.note == note("same", **extra)
    assert dict(committed.note.extra) == extra
    assert committed.note.cut.to_json() == note().cut.to_json()


@pytest.mark.parametrize("text", [None, "", "{", "[]", '"x"', "1", '{"anabranch": "2"}', '{"other": 1}'])
def test_what_is_no_note_is_no_error(text: str | None) -> None:
    assert CommitMetadata.from_text(text) is None


def test_commits_of_others_are_passed_over(tmp_path: Path) -> None:
    table = first_commits(tmp_path)
    for _ in range(22):
        append(table, stage(uri_of(table), [("c", 1, ONE)]), note("ours"))
    table.optimize.compact()
    table.delete("n = 2")
    committed = latest_commit(uri_of(table))
    assert committed is not None
    assert (committed.note.batch, committed.version) == ("ours", table.version() - 2)
    assert [c.note.batch for c in commit_history(table, 3)] == ["ours"]


def test_what_came_after_a_table_was_opened_is_not_told_of_it(table: DeltaTable) -> None:
    """delta-rs's history() tells the newer commits, under the numbers of older ones: a cut that its rows don't have."""
    opened = delta_table(uri_of(table))
    for batch in ("2", "3"):
        append(table, stage(uri_of(table), [("c", 3, TWO)]), note(batch))
    told = [(committed.version, committed.note.batch) for committed in commit_history(opened)]
    assert told == [(1, "1"), (0, "0")]
    known = latest_commit(opened)
    assert known is not None
    assert (known.version, known.note.batch) == (1, "1")
    assert [committed.version for committed in commit_history(opened, 1)] == [1]
    assert [committed.version for committed in commit_history(uri_of(table))] == [3, 2, 1, 0]


def test_notes_end_where_the_kept_log_ends(table: DeltaTable) -> None:
    for batch in ("2", "3"):
        append(table, stage(uri_of(table), [("c", 3, TWO)]), note(batch))
    table.create_checkpoint()
    for version in (0, 1):
        storage_of(folder_of(table)).remove(log_file(table, version, "json"))
    assert [(committed.version, committed.note.batch) for committed in commit_history(uri_of(table))] == [
        (3, "3"),
        (2, "2"),
    ]


def test_a_torn_commit_before_the_newest_is_named(table: DeltaTable) -> None:
    append(table, stage(uri_of(table), [("c", 3, TWO)]), note("2"))
    torn = log_file(table, 1, "json")
    storage_of(torn).write(torn, text_of(torn)[:40].encode())
    with pytest.raises(BrokenState, match=torn.name):
        list(commit_history(table))


def test_a_table_without_any_note_says_so(place: Path) -> None:
    uri, storage = str(place / "foreign"), storage_of(place)
    assert latest_commit(uri) is None
    options = dict(storage.delta_options)
    DeltaTable.create(storage.uri(place / "foreign"), schema=pa.schema([("n", pa.int64())]), storage_options=options)
    with pytest.raises(BrokenState) as caught:
        latest_commit(uri)
    assert caught.value.code == "NOTES_LOST"


def test_of_two_creators_one_makes_the_table(table: DeltaTable) -> None:
    again = create(uri_of(table), SCHEMA, ["day"], note("second"))
    assert again.version() == table.version() == 1
    assert [c.note.batch for c in commit_history(again)] == ["1", "0"]


def test_creators_that_start_at_once_all_get_the_table(tmp_path: Path) -> None:
    for attempt in range(40):  # one call in twelve had its commit refused
        with ThreadPoolExecutor(6) as pool:
            made = list(
                pool.map(lambda _, uri=str(tmp_path / str(attempt)): create(uri, SCHEMA, ["day"], note()), range(6))
            )
        assert [table.version() for table in made] == [0] * 6


def test_a_checksum_counts_what_the_commit_holds(table: DeltaTable) -> None:
    staged = stage(uri_of(table), [("c", 1, ONE), ("d", 1, TWO)])
    assert f'"numFiles": {len(table.file_uris()) + 2}' in prepare(table, staged).text


def test_a_kill_before_the_commit_leaves_a_table_that_opens(table: DeltaTable) -> None:
    """delta-rs refuses a table whose newest checksum is ahead of its commits."""
    prepare(table, stage(uri_of(table), [("c", 1, ONE)]))
    assert delta_table(uri_of(table)).version() == table.version()
    append(table, stage(uri_of(table), [("d", 1, ONE)]), note("after"))
    assert text_of(log_file(table, table.version(), "crc"))
    assert delta_table(uri_of(table)).version() == table.version()
