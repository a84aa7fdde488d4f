"""A writer is stopped (SIGSTOP) at the very call that gives its commit a name, its successor commits, and it wakes; or
it is killed there.

Below delta-rs and below our own link, by the tracer: before the call the sleeper has prepared its version and checked
all that it checks; behind it, its commit is in, and it doesn't know.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from anabranch.core.errors import Conflict
from anabranch.lake import commit_history, open_table
from anabranch.lake.commits import append, create
from anabranch.lake.file_commits import commit_move, data_files
from deltalake import DeltaTable
from support.commit_kinds import CREATE, DAY, FIRST, KINDS, SCHEMA, SECOND, begun, committed, note, read, staged
from support.traced_programs import committing

pytestmark = pytest.mark.unit
THIRD = {"k": "third", "n": 3, "day": DAY}


def adds(uri: Path) -> int:
    table = DeltaTable(str(uri))
    return append(table, staged(table, THIRD), note("successor"))


def compacts(uri: Path) -> int:
    table = DeltaTable(str(uri))
    return commit_move(table, data_files(table), staged(table, *read(table)))


def repeats(uri: Path) -> int:
    """The same batch, as the next process of a stream decides it again."""
    return KINDS["upsert"][0](DeltaTable(str(uri)), note("upsert"))


def slept(uri: Path, kind: str, version: int, successor: Callable[[Path], int], *, after: bool) -> tuple[int, object]:
    """The version that the successor makes meanwhile, and how the sleeper ends."""
    with committing(kind, uri, version=version, stop=True, after=after) as sleeper:
        sleeper.wait_until_stopped()
        begun_at = time.monotonic()
        made = successor(uri)
        assert time.monotonic() - begun_at < 5, "it has waited for the sleeper"
        sleeper.wake()
        found, said = sleeper.end()
    assert (found["code"], found["killed"]) == (0, False), said
    return made, json.loads(said.splitlines()[-1])


def batches(uri: Path) -> list[str]:
    return [each.note.batch for each in commit_history(str(uri))][::-1]


def is_whole(uri: Path, *rows: dict[str, object]) -> None:
    table = DeltaTable(str(uri))
    assert read(table) == list(rows)
    assert all(Path(file.removeprefix("file://")).exists() for file in table.file_uris())


@pytest.mark.parametrize("kind", KINDS)
def test_before_its_commit_it_gets_that_another_was_first(tmp_path: Path, kind: str) -> None:
    begun(str(tmp_path))
    assert slept(tmp_path, kind, 2, adds, after=False) == (2, "TABLE_MOVED")
    assert batches(tmp_path) == ["create", "first", "successor"]
    is_whole(tmp_path, FIRST, THIRD)


@pytest.mark.parametrize("kind", KINDS)
def test_behind_its_commit_it_goes_on_and_its_successor_has_built_upon_it(tmp_path: Path, kind: str) -> None:
    begun(str(tmp_path))
    assert slept(tmp_path, kind, 2, adds, after=True) == (3, 2)
    assert batches(tmp_path) == ["create", "first", *([] if kind == "move" else [kind]), "successor"]
    is_whole(tmp_path, *KINDS[kind][1], THIRD)


@pytest.mark.parametrize("after", [False, True])
def test_one_that_makes_the_table_gets_the_one_that_is_there(tmp_path: Path, after: bool) -> None:
    def creates(uri: Path) -> int:
        return create(str(uri), SCHEMA, ["day"], note("successor")).version()

    assert slept(tmp_path, CREATE, 0, creates, after=after) == (0, 0)
    assert batches(tmp_path) == [CREATE if after else "successor"]
    is_whole(tmp_path)


@pytest.mark.parametrize("kind", ["append", "replace", "upsert"])
def test_a_compaction_meanwhile_changes_nothing_of_its_decision(tmp_path: Path, kind: str) -> None:
    begun(str(tmp_path))
    assert slept(tmp_path, kind, 2, compacts, after=False) == (2, 3)
    assert batches(tmp_path) == ["create", "first", kind]
    is_whole(tmp_path, *KINDS[kind][1])


def test_of_two_compactions_one_is_done(tmp_path: Path) -> None:
    begun(str(tmp_path))
    assert slept(tmp_path, "move", 2, compacts, after=False) == (2, "TABLE_MOVED")
    is_whole(tmp_path, FIRST)


@pytest.mark.parametrize(("after", "ends"), [(False, (2, "TABLE_MOVED")), (True, (3, 2))])
def test_a_batch_that_its_successor_commits_again_is_in_once(
    tmp_path: Path, after: bool, ends: tuple[int, object]
) -> None:
    begun(str(tmp_path))
    assert slept(tmp_path, "upsert", 2, repeats, after=after) == ends
    is_whole(tmp_path, FIRST, SECOND)


@pytest.mark.parametrize("kind", ["append", "replace", "upsert"])
def test_one_that_wakes_before_its_successor_commits_was_first_and_the_successor_decides_again(
    tmp_path: Path, kind: str
) -> None:
    """Taking over commits nothing (ADR 33): what the successor has read by then is refused, and read again."""
    begun(str(tmp_path))
    with committing(kind, tmp_path, version=2, stop=True) as sleeper:
        sleeper.wait_until_stopped()
        successor = DeltaTable(str(tmp_path))
        sleeper.wake()
        _, said = sleeper.end()
    assert json.loads(said.splitlines()[-1]) == 2
    with pytest.raises(Conflict) as told:
        append(successor, staged(successor, THIRD), note("successor"))
    assert told.value.code == "TABLE_MOVED"
    assert adds(tmp_path) == 3
    assert batches(tmp_path) == ["create", "first", kind, "successor"]
    is_whole(tmp_path, *KINDS[kind][1], THIRD)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("kind", [CREATE, *KINDS])
def test_one_that_is_killed_at_its_commit_has_made_it_or_not(tmp_path: Path, kind: str, after: bool) -> None:
    """Its successor reads which, and nothing is in its way."""
    version, expected = (0, list[dict[str, object]]()) if kind == CREATE else (2, KINDS[kind][1])
    if kind != CREATE:
        begun(str(tmp_path))
    with committing(kind, tmp_path, version=version, after=after) as writer:
        found, said = writer.end()
    assert found["killed"], said
    table = open_table(str(tmp_path))
    assert (-1 if table is None else table.version()) == (version if after else version - 1)
    if not after:
        assert committed(kind, str(tmp_path)) == version
    is_whole(tmp_path, *expected)
