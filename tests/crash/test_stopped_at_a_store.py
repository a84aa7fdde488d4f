"""A writer is stopped (SIGSTOP) when it has sent its commit to an object store, its successor commits, and it wakes.

The store stops it: the request has left it then, and is carried out at once, or only when the successor is through.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from anabranch.lake import commit_history
from anabranch.lake.commits import append
from anabranch.lake.log.delta_tables import delta_table
from support.commit_kinds import DAY, FIRST, KINDS, begun, main, note, read, staged
from support.object_store import Faults, ObjectStore, object_store
from support.warm_processes import warm

pytestmark = pytest.mark.unit
THIRD = {"k": "third", "n": 3, "day": DAY}
ALWAYS = ("append", "upsert", "rewrite")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ObjectStore]:
    with object_store(tmp_path) as found:
        yield found


@pytest.mark.parametrize(
    "kind", [pytest.param(each, marks=() if each in ALWAYS else pytest.mark.sweep) for each in KINDS]
)
@pytest.mark.parametrize(("when", "ends"), [("before", (2, "TABLE_MOVED")), ("after", (3, 2))])
def test_the_sleeper_gets_what_became_of_its_commit(
    store: ObjectStore, tmp_path: Path, kind: str, when: str, ends: tuple[int, object]
) -> None:
    uri = store.uri(tmp_path / "table")
    begun(uri)
    with (
        store.failing(Faults(of=f"/_delta_log/{2:020d}.json", stop=when)),
        warm(main, kind, uri, str(tmp_path), store.address, store.bucket) as sleeper,
    ):
        sleeper.wait_until_stopped()
        began = time.monotonic()
        table = delta_table(uri)
        made = append(table, staged(table, THIRD), note("successor"))
        assert time.monotonic() - began < 5, "it has waited for the sleeper"
        psutil.Process(sleeper.pid).resume()
        sleeper.process.join(60)
        assert sleeper.process.exitcode == 0, "it hasn't come to its end"
        said = sleeper.out.read()
    assert (made, json.loads(said.splitlines()[-1])) == ends
    batches = [each.note.batch for each in commit_history(uri)][::-1]
    assert batches == ["create", "first", *([] if when == "before" or kind == "move" else [kind]), "successor"]
    assert read(delta_table(uri)) == [*([FIRST] if when == "before" else KINDS[kind][1]), THIRD]
