"""The DAG files of commit 46c6225 make the same DAGs today."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from support.old_home.unpack import FOLDER, unpack
from support.parsed_dags import Parse

pytestmark = pytest.mark.unit

VERSIONS: Final = ("departure_delays", "departure_delays.v1", "hour_and_weather", "turns")
DAGS: Final = {
    "maintain": {"maintain"},
    "migrate": {"migrate"},
    "replay": {"replay"},
    "retire": {"retire"},
    "repair": {f"repair_{view}" for view in VERSIONS},
    "reprocess": {f"reprocess_{view}" for view in VERSIONS},
}


@pytest.mark.parametrize("file", sorted(DAGS))
def test_it_is_parsed(parse: Parse, file: str, tmp_path: Path) -> None:
    project = unpack(FOLDER / "home_46c6225.tar.xz", tmp_path).project
    parsed = parse(tmp_path, project, file, project / "dags")
    assert {dag["id"] for dag in parsed["dags"].values()} | set(parsed["dags"]) >= DAGS[file]
    if file in ("repair", "reprocess"):
        assert all(["rebuild", "publish"] in dag["edges"] for dag in parsed["dags"].values())
