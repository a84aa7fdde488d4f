"""Whether a table's commits can be read instead of its files: all are there, few, and only add rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from anabranch.lake import CommitMetadata
from anabranch.lake.commits import append, configure, create, replace, widen
from anabranch.lake.cut import Cut
from anabranch.lake.files import stage_arrow
from anabranch.lake.log.archived_commits import ARCHIVE, LOG, commit_name
from anabranch.lake.log.commit_log import only_appends
from anabranch.lake.log.delta_tables import delta_table, folder_of
from deltalake import DeltaTable

pytestmark = pytest.mark.unit
SCHEMA = pa.schema([("day", pa.string()), ("n", pa.int64())])
NOTE = CommitMetadata("landing/x", "1", Cut())


def add(table: DeltaTable, number: int) -> None:
    rows = pa.table({"day": ["a"], "n": [number]}, SCHEMA)
    append(table, stage_arrow(rows, table.table_uri, f"b{number}", "day"), NOTE)


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    """Versions 0, which makes it, 1 and 2."""
    made = create(str(tmp_path / "t"), SCHEMA, ["day"], NOTE)
    for number in (1, 2):
        add(made, number)
    return made


def log(table: DeltaTable, version: int) -> Path:
    return folder_of(table) / LOG / commit_name(version)


def archived(table: DeltaTable) -> None:
    older = folder_of(table) / ARCHIVE
    older.mkdir()
    log(table, 1).rename(older / commit_name(1))


def test_rows_that_were_added_are_all_that_there_is(table: DeltaTable) -> None:
    assert only_appends(table, 3)
    assert not only_appends(table, 2), "more commits than one wants to read"


@pytest.mark.parametrize(
    "change",
    [
        lambda table: replace(table, [], NOTE, ("day", ["a"])),
        lambda table: table.optimize.compact(),
        lambda table: widen(table, pa.schema([("more", pa.int64())]), NOTE),
        lambda table: configure(table, {"delta.checkpointInterval": "5"}, NOTE),
        lambda table: log(table, 1).unlink(),
        archived,
        lambda table: log(table, 2).write_text(log(table, 2).read_text()[:-20]),
    ],
    ids=["emptied", "compacted", "widened", "configured", "deleted", "archived", "torn"],
)
def test_anything_else_is_none(table: DeltaTable, change: Callable[[DeltaTable], object]) -> None:
    change(table)
    if table.version() == 2:
        assert not only_appends(table, 100)
    else:
        add(delta_table(table.table_uri), 3)
        assert not only_appends(delta_table(table.table_uri), 100)
