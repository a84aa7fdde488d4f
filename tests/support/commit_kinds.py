"""Each kind of commit to a table: how it is made, and the rows that it leaves. Also run as a program, for a tracer:

python -m support.commit_kinds KIND TABLE [FOLDER ADDRESS BUCKET]

The last three: of an object store (``support.object_store``). Its last line is the version that it has made, or the
code of its error.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
from anabranch.core.errors import AnabranchError
from anabranch.core.storage import mounted
from anabranch.lake import CommitMetadata
from anabranch.lake.commits import append, configure, create, replace, upsert, widen
from anabranch.lake.cut import Cut, Position
from anabranch.lake.file_commits import commit_move, commit_rewrite, data_files
from anabranch.lake.files import StagedFile, stage_arrow
from anabranch.lake.log.delta_tables import delta_table, folder_of
from deltalake import DeltaTable

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64()), ("day", pa.date32())])
DAY = date(2013, 1, 1)
FIRST = {"k": "first", "n": 1, "day": DAY}
SECOND = {"k": "second", "n": 2, "day": DAY}
Commit = Callable[[DeltaTable, CommitMetadata], int]


def rows(*given: dict[str, object]) -> pa.Table:
    return pa.Table.from_pylist(list(given), SCHEMA)


def staged(table: DeltaTable, *given: dict[str, object]) -> list[StagedFile]:
    return stage_arrow(rows(*given), str(log_of(table).parent), os.urandom(4).hex(), "day")


def moved(table: DeltaTable, _: CommitMetadata) -> int:
    return commit_move(table, data_files(table), staged(table, FIRST))


KINDS: dict[str, tuple[Commit, list[dict[str, object]]]] = {
    "append": (lambda t, note: append(t, staged(t, SECOND), note), [FIRST, SECOND]),
    "append of nothing": (lambda t, note: append(t, [], note), [FIRST]),
    "replace": (
        lambda t, note: replace(t, staged(t, SECOND), note, ("day", [f"{DAY}"])),
        [SECOND],
    ),
    "replace everything": (lambda t, note: replace(t, staged(t, SECOND), note, None), [SECOND]),
    "upsert": (lambda t, note: upsert(t, rows(SECOND), ["k"], note, "day"), [FIRST, SECOND]),
    "widen": (lambda t, note: widen(t, pa.schema([*SCHEMA, pa.field("new", pa.int64())]), note), [FIRST]),
    "configure": (lambda t, note: configure(t, {"delta.logRetentionDuration": "interval 9 days"}, note), [FIRST]),
    "move": (moved, [FIRST]),
    "rewrite": (lambda t, note: commit_rewrite(t, data_files(t), staged(t, SECOND), note), [SECOND]),
}
"""How each kind of commit is made, and the rows that it leaves."""


CREATE = "create"
"""The kind that makes the table: version 0, without a row."""


def note(batch: str) -> CommitMetadata:
    return CommitMetadata("a test", batch, Cut({"t": Position(1, {0: 1})}))


def log_of(table: DeltaTable) -> Path:
    return folder_of(table) / "_delta_log"


def read(table: DeltaTable) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.to_pyarrow_table().sort_by("n").to_pylist()
    return [{name: row[name] for name in SCHEMA.names} for row in found]


def begun(uri: str) -> DeltaTable:
    """A table at version 1, with one row. delta-rs writes a checkpoint behind each commit."""
    made = create(uri, SCHEMA, ["day"], note("create"), {"delta.checkpointInterval": "1"})
    append(made, staged(made, FIRST), note("first"))
    return made


def committed(kind: str, uri: str) -> int:
    """The version that a commit of this kind makes, also of the one that makes the table."""
    if kind == CREATE:
        return create(uri, SCHEMA, ["day"], note(kind)).version()
    return KINDS[kind][0](delta_table(uri), note(kind))


def _mounted(folder: str, address: str, bucket: str) -> AbstractContextManager[None]:
    from support.object_store import ObjectStore  # takes a second, which the others don't need

    return mounted(Path(folder), ObjectStore(Path(folder), address, bucket))


def main(kind: str, uri: str, *store: str) -> None:
    with _mounted(*store) if store else nullcontext():
        try:
            print(json.dumps(committed(kind, uri)))  # noqa: T201
        except AnabranchError as error:
            print(json.dumps(error.code))  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
