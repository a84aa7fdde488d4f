"""Where a table's data files are, whatever its log and delta-rs call them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from anabranch.core.storage import storage_of
from anabranch.lake import CommitMetadata
from anabranch.lake.commits import append, create
from anabranch.lake.cut import Cut
from anabranch.lake.files import stage_arrow
from anabranch.lake.log.commit_log import changes
from anabranch.lake.log.delta_tables import data_path, data_paths, folder_of
from deltalake import DeltaTable
from support.our_packages import inside, modules

pytestmark = pytest.mark.unit
NAMES = ["a b", "50%", "é#?", "plain"]


@pytest.fixture
def table(place: Path) -> DeltaTable:
    """Partitions whose names are escaped in a folder's name, and once more in the log."""
    uri, rows = str(place / "table"), pa.table({"kind": NAMES, "n": [1, 2, 3, 4]})
    made = create(uri, rows.schema, ["kind"], CommitMetadata("test", "create", Cut()))
    append(made, stage_arrow(rows, uri, "one", "kind"), CommitMetadata("test", "1", Cut()))
    return made


def test_every_file_is_where_its_path_says(table: DeltaTable) -> None:
    paths = data_paths(table)
    assert len(set(paths)) == len(NAMES)
    assert all(storage_of(path).exists(path) and folder_of(table) in path.parents for path in paths)


def test_the_log_and_delta_rs_speak_of_the_same_files(table: DeltaTable) -> None:
    spelt = pa.table(table.get_add_actions())["path"].to_pylist()
    assert [data_path(folder_of(table), each) for each in spelt] == data_paths(table)
    assert sorted(changes(table, table.version()).added) == sorted(data_paths(table))


@pytest.mark.parametrize("name", NAMES)
def test_the_files_of_some_partitions_alone(table: DeltaTable, name: str) -> None:
    (path,) = data_paths(table, ("kind", "in", [name]))
    assert path in data_paths(table)


def test_only_the_seam_takes_an_uri_apart() -> None:
    spelling = [path for path in modules().values() if "file:/" in path.read_text()]
    assert [inside(path) for path in spelling] == ["core/storage.py"]
