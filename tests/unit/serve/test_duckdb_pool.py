"""The DuckDB instances of a process: shared by its reads, never with its children, and the parser's reaches nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
from anabranch.serve import _duckdb_pool

pytestmark = pytest.mark.unit
FORKING = """
import os
from anabranch.serve import _duckdb_pool as duckdb_pool
query = "select sum(i) from range(1_000_000) t(i)"
duckdb_pool.scanner().execute(query).fetchall(), duckdb_pool.parser().execute("select 1").fetchall()
child = os.fork()
if not child:
    duckdb_pool.scanner().execute(query).fetchall(), duckdb_pool.parser().execute("select 1").fetchall()
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_process_reads_by_instances_of_its_own() -> None:
    ended = subprocess.run([sys.executable, "-c", FORKING], capture_output=True, text=True, timeout=60, check=True)

    assert ended.stdout.strip() == "7", ended.stderr


@pytest.mark.parametrize("query", ["select * from read_text('{file}')", "copy (select 1) to '{file}'"])
def test_the_parser_reaches_no_file(tmp_path: Path, query: str) -> None:
    file = tmp_path / "file"
    file.write_text("kept")

    with pytest.raises(duckdb.Error):
        _duckdb_pool.parser().execute(query.format(file=file)).fetchall()

    assert file.read_text() == "kept"


def test_settings_of_the_shared_instances_are_locked() -> None:
    for cursor in (_duckdb_pool.parser(), _duckdb_pool.scanner()):
        with pytest.raises(duckdb.Error):
            cursor.execute("SET GLOBAL TimeZone = 'America/New_York'")
        assert cursor.execute("select current_setting('TimeZone')").fetchall() == [("UTC",)]
