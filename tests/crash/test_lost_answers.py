"""The answer to the call that makes a commit is lost: it is in, and the writer is told an error by the system itself.
Also one that is true: the disk is full.

Injected below delta-rs and below our own link, by the tracer: the kernel does what was asked for and answers an error,
as a file system over a network does whose answer got lost (EIO), or that repeats its own request (EEXIST).
"""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest
from anabranch.lake import latest_commit, open_table
from deltalake import DeltaTable
from support.commit_kinds import CREATE, FIRST, KINDS, begun, committed, note, read
from support.traced_programs import committing

pytestmark = pytest.mark.unit


def expected(kind: str) -> tuple[int, list[dict[str, object]]]:
    """The version that a commit of this kind makes, and the rows of the table then."""
    return (0, []) if kind == CREATE else (2, KINDS[kind][1])


def is_in_once(uri: Path, kind: str) -> None:
    version, rows = expected(kind)
    table = DeltaTable(str(uri))
    assert table.version() == version
    assert read(table) == rows
    newest = latest_commit(str(uri))
    assert newest is not None
    assert newest.note == note("first" if kind == "move" else kind)
    assert all(Path(file.removeprefix("file://")).exists() for file in table.file_uris())


@pytest.mark.parametrize("error", [errno.EIO, errno.EEXIST], ids=lambda error: errno.errorcode[error])
@pytest.mark.parametrize("kind", [CREATE, *KINDS])
def test_a_commit_whose_answer_is_lost_is_in_once(tmp_path: Path, kind: str, error: int) -> None:
    uri = tmp_path / "table"
    version, _ = expected(kind)
    if kind != CREATE:
        begun(str(uri))

    with committing(kind, uri, version=version, answer=error) as program:
        found, said = program.end()

    assert (found["answered"], found["killed"], found["code"]) == (True, False, 0), said
    assert json.loads(said.splitlines()[-1]) == version, said
    is_in_once(uri, kind)


@pytest.mark.parametrize("kind", [CREATE, *KINDS])
def test_nobody_knows_where_the_log_can_not_be_read_behind_it(tmp_path: Path, kind: str) -> None:
    """It is in, and its writer is told so neither by the answer nor by the log: nothing is added, nothing removed."""
    uri = tmp_path / "table"
    version, _ = expected(kind)
    if kind != CREATE:
        begun(str(uri))
    log = uri / "_delta_log"

    with committing(kind, uri, version=version, answer=errno.EIO, unread=str(log)) as program:
        found, said = program.end()

    assert (found["answered"], found["code"]) == (True, 0), said
    assert json.loads(said.splitlines()[-1]) == "COMMIT_UNKNOWN", said
    log.unlink()
    Path(f"{log}.away").rename(log)
    is_in_once(uri, kind)


@pytest.mark.parametrize("kind", [CREATE, *KINDS])
def test_a_disk_that_takes_no_commit_has_none(tmp_path: Path, kind: str) -> None:
    uri = tmp_path / "table"
    version, _ = expected(kind)
    if kind != CREATE:
        begun(str(uri))

    with committing(kind, uri, version=version, answer=errno.ENOSPC, refused=True) as program:
        found, said = program.end()

    assert (found["answered"], found["code"]) == (True, 0), said
    assert json.loads(said.splitlines()[-1]) == "COMMIT_UNWRITTEN", said
    table = open_table(str(uri))
    assert (None if table is None else (table.version(), read(table))) == (None if kind == CREATE else (1, [FIRST]))
    assert committed(kind, str(uri)) == version, "it is tried again"
    is_in_once(uri, kind)
