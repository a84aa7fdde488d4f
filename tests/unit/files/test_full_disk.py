"""A full disk ends a load with an error that says what was loaded; nothing is left, and the load can be repeated."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from anabranch.contracts import Contract, PlainJson, Record, Topic
from anabranch.core.errors import BadInput, BrokenState, TryAgain
from anabranch.core.settings import Settings
from anabranch.ingest.files import _load_files, find_files
from anabranch.ingest.landing.loaded_files import Loads

pytestmark = pytest.mark.unit
VISIT = Contract("visit.made", 1, {"type": "object", "properties": {"id": {"type": "string"}}})
TOPIC = Topic("visits", (VISIT,), records=PlainJson(id="id", time=Record.APPEND_TIME))


class Epochs:
    """Lands nothing; ``fails`` is raised instead."""

    def __init__(self, fails: Exception | None = None) -> None:
        self.table, self.landed, self.fails = SimpleNamespace(update_incremental=lambda: None), None, fails

    def land(self, *_: Any) -> tuple[dict[str, int], dict[str, int]]:
        if self.fails:
            raise self.fails
        return {}, {}


@pytest.fixture
def load_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., _load_files.FileReport]:
    (tmp_path / "a.jsonl").write_text('{"id": "1"}\n{"id": "2"}\n{"id": "3"}\n')
    (address,) = find_files([str(tmp_path / "a.jsonl")])
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(_load_files, "read_state", lambda *_: SimpleNamespace(loads=Loads()))
    monkeypatch.setattr(_load_files, "finished_files", lambda *_: {})
    monkeypatch.setattr(_load_files, "record_file", lambda *_: None)

    def load(epochs: Epochs | None = None) -> _load_files.FileReport:
        settings, scratch = Settings(home=tmp_path), tmp_path / "scratch"
        return _load_files._load_file(settings, TOPIC, address, epochs or Epochs(), scratch, print, 2)  # type: ignore[arg-type]

    return load


def fill_disk(monkeypatch: pytest.MonkeyPatch, from_part: int) -> None:
    """The parts from this one on find a full disk."""
    real = pq.write_table

    def write(table: Any, where: Path, **options: Any) -> None:
        if where.name >= f"part-{from_part:05}":
            where.symlink_to("/dev/full")
        real(table, where, **options)

    monkeypatch.setattr(pq, "write_table", write)


@pytest.mark.parametrize("from_part", [0, 1])
def test_a_full_disk_while_parts_are_prepared(
    from_part: int, load_one: Callable[..., _load_files.FileReport], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        fill_disk(full, from_part)
        with pytest.raises(TryAgain) as refused:
            load_one()
    assert refused.value.code == "DISK_FULL"
    assert str(tmp_path / "scratch") in refused.value.what
    assert "a.jsonl" in refused.value.what
    assert "nothing of it was loaded" in refused.value.state
    assert "load the same again" in refused.value.next_step
    assert list((tmp_path / "scratch").iterdir()) == []
    assert load_one().rows == 3


def test_a_full_disk_before_a_part_is_begun(
    load_one: Callable[..., _load_files.FileReport], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(**_: Any) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "mkdtemp", full)
    with pytest.raises(TryAgain) as refused:
        load_one()
    assert refused.value.code == "DISK_FULL"


@pytest.mark.parametrize(
    "error",
    [
        OSError(28, "No space left on device"),
        OSError(122, "Disk quota exceeded"),
        RuntimeError("org.apache.spark.SparkException: ... Caused by: java.io.IOException: No space left on device"),
    ],
)
def test_a_full_disk_while_rows_are_landed(
    error: Exception, load_one: Callable[..., _load_files.FileReport], tmp_path: Path
) -> None:
    with pytest.raises(TryAgain) as refused:
        load_one(Epochs(error))
    assert refused.value.code == "DISK_FULL"
    assert "rows of it may have landed" in refused.value.state
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), BrokenState("COMMIT_UNKNOWN", "may be in")])
def test_other_errors_stay_as_they_are(error: Exception, load_one: Callable[..., _load_files.FileReport]) -> None:
    with pytest.raises(type(error)) as raised:
        load_one(Epochs(error))
    assert raised.value is error


def test_a_file_that_names_a_full_disk_is_still_refused_for_what_it_is(
    load_one: Callable[..., _load_files.FileReport], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise BadInput("FILE_UNREADABLE", "No space left on device.csv: it can't be read")

    monkeypatch.setattr(_load_files, "prepare", refuse)
    assert "it can't be read" in load_one().error
