"""A kill while commits are deleted: what can still be opened has all its rows. delta-rs doesn't notice that the first
commits of a log are gone."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pytest
from anabranch.core.settings import load_settings
from anabranch.lake import CommitMetadata
from anabranch.lake.commits import append, create
from anabranch.lake.cut import Cut
from anabranch.lake.files import stage_arrow
from anabranch.lake.layout import TableRef
from anabranch.lake.log.delta_tables import delta_table
from anabranch.operate.maintenance._log_retention import clean
from anabranch.operate.maintenance._report import Policy
from deltalake.exceptions import DeltaError

pytestmark = pytest.mark.unit
SCHEMA = pa.schema([("day", pa.string()), ("n", pa.int64())])
NOTE = CommitMetadata("view/x/v1/batch", "1", Cut())


class Killed(BaseException):
    pass


@pytest.mark.parametrize("number", range(1, 8))
def test_no_version_is_left_with_a_part_of_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    table = create(str(tmp_path / "t"), SCHEMA, ["day"], NOTE)
    for n in range(1, 5):
        append(table, stage_arrow(pa.table({"day": ["a"], "n": [n]}, SCHEMA), table.table_uri, f"b{n}", "day"), NOTE)
    table.create_checkpoint()
    unlink, calls = Path.unlink, [0]

    def dying(path: Path, missing_ok: bool = False) -> None:
        calls[0] += "_delta_log" in str(path)
        if calls[0] == number:
            raise Killed
        unlink(path, missing_ok=missing_ok)

    place = TableRef("batch", str(tmp_path / "t"), "x", 1)
    policy = Policy(now=time.time() + 40 * 86_400)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", dying)
        with pytest.raises(Killed):
            list(clean(load_settings(home=tmp_path), place, policy, plan=False))
    opened = dict[int, int]()
    for version in range(5):
        try:
            opened[version] = delta_table(tmp_path / "t", version).to_pyarrow_table().num_rows
        except DeltaError:
            continue
    assert opened == {version: version for version in opened}
    assert opened[4] == 4
