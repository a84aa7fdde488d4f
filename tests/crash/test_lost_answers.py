"""The answer to the call that makes a commit is lost: it is in, and the writer is told an error by the system itself.

Injected below delta-rs and below our own link, by the tracer: the kernel does what was asked for and answers an error,
as a file system over a network does whose answer got lost (EIO), or that repeats its own request (EEXIST).
"""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from anabranch.lake import latest_commit
from deltalake import DeltaTable
from support.commit_kinds import KINDS, begun, note, read

pytestmark = pytest.mark.unit


def traced(uri: Path, kind: str, version: int, error: int) -> tuple[dict[str, Any], str]:
    blow = {"operation": "link", "path": f"{uri}/_delta_log/{version:020d}.json", "answer": error}
    program = [sys.executable, "-m", "support.commit_kinds", kind, str(uri)]
    done = subprocess.run(
        [sys.executable, "-m", "crash.tracer", json.dumps({"under": str(uri), "blow": blow}), "--", *program],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return json.loads(done.stdout), done.stderr


@pytest.mark.parametrize("error", [errno.EIO, errno.EEXIST], ids=lambda error: errno.errorcode[error])
@pytest.mark.parametrize("kind", ["create", *KINDS])
def test_a_commit_whose_answer_is_lost_is_in_once(tmp_path: Path, kind: str, error: int) -> None:
    uri = tmp_path / "table"
    expected, version, rows = note(kind), 0, list[dict[str, object]]()
    if kind != "create":
        begun(str(uri))
        expected, version, rows = note("first" if kind == "move" else kind), 2, KINDS[kind][1]

    found, said = traced(uri, kind, version, error)

    assert (found["answered"], found["killed"], found["code"]) == (True, False, 0), said
    assert json.loads(said.splitlines()[-1]) == version, said
    table = DeltaTable(str(uri))
    assert table.version() == version
    assert read(table) == rows
    committed = latest_commit(str(uri))
    assert committed is not None
    assert committed.note == expected
    assert all(Path(file.removeprefix("file://")).exists() for file in table.file_uris())
