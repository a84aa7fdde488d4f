"""Every failure of a read that isn't the reader's is counted: by number too, and whatever kind of error it is."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import anabranch
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from anabranch.core.errors import AnabranchError, BadInput
from anabranch.core.settings import Settings
from anabranch.core.storage import DISK
from anabranch.lake import CommitMetadata, commits
from anabranch.lake.layout import VersionRef
from anabranch.serve import _read_api, routes
from anabranch.serve.reader_log import failed_reads
from anabranch.serve.routes import set_route
from support import small_halves
from support.small_halves import DAYS, VIEW

pytestmark = pytest.mark.unit
READ: dict[str, Callable[[anabranch.Reading], Any]] = {
    "arrow": lambda reading: reading.to_arrow(),
    "batches": lambda reading: reading.to_arrow_batches().read_all(),
    "polars": lambda reading: reading.to_polars(),
    "pandas": lambda reading: reading.to_pandas(),
}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Two versions with readers, one without."""
    made = Settings(home=tmp_path, reader="anna")
    for version in (1, 2, 3):
        small_halves.start_speed(made, 2, DAYS[:2], version=version)
    set_route(made, VIEW, {1: 100}, by="test", why="test")
    set_route(made, VIEW, {1: 50, 2: 50}, by="test", why="test")
    return made


def counted(settings: Settings, version: int) -> list[tuple[str, str, int]]:
    return [(read.code, read.engine, read.route) for read in failed_reads(VersionRef(settings, VIEW, version))]


def files(settings: Settings, version: int) -> list[Path]:
    return sorted(Path(VersionRef(settings, VIEW, version).speed_table).rglob("*.parquet"))


def tear(settings: Settings, version: int) -> None:
    """Its newest commit is torn."""
    newest = max((Path(VersionRef(settings, VIEW, version).speed_table) / "_delta_log").glob("*.json"))
    newest.write_text(newest.read_text()[:-40])


def test_a_read_by_number_of_a_version_that_has_readers(settings: Settings) -> None:
    for version in (2, 3):
        tear(settings, version)
        with pytest.raises(AnabranchError):
            anabranch.read(VIEW, version, settings)
    assert (counted(settings, 2), counted(settings, 3)) == ([("TABLE_UNREADABLE", "read", 2)], [])
    with pytest.raises(BadInput, match="v9"):
        anabranch.read(VIEW, 9, settings)
    assert not (settings.home / "control" / "failed_reads" / VIEW / "v9").exists()


def test_a_reading_by_number_of_a_version_that_has_readers(settings: Settings) -> None:
    readings = [anabranch.read(VIEW, version, settings) for version in (2, 3)]
    for version, reading in zip((2, 3), readings, strict=True):
        files(settings, version)[0].unlink()
        with pytest.raises(AnabranchError):
            reading.to_arrow()
    assert (counted(settings, 2), counted(settings, 3)) == ([("READING_EXPIRED", "arrow", 2)], [])


def test_a_reading_by_number_counts_as_of_the_route_when_it_was_made(settings: Settings) -> None:
    """A reading from before a migration is no failure of its steps."""
    reading = anabranch.read(VIEW, 2, settings)
    set_route(settings, VIEW, {2: 100}, by="test", why="test")
    files(settings, 2)[0].unlink()
    with pytest.raises(AnabranchError):
        reading.to_polars()
    assert counted(settings, 2) == [("READING_EXPIRED", "polars", 2)]


def publish_what_nobody_can_read(settings: Settings, version: int) -> None:
    """The note of the newest commit lacks the cut of a published day."""
    small_halves.publish(settings, {DAYS[0]: 2}, DAYS[:1], version=version)
    table = commits.open_table(VersionRef(settings, VIEW, version).batch_table)
    assert table is not None
    published = [{"from": str(DAYS[0]), "to": str(DAYS[0])}]
    note = CommitMetadata("view/delays/v1/batch", uuid4().hex, small_halves.cut_at(2), extra={"published": published})
    commits.replace(table, [], note, ("partition_date", []))


@pytest.mark.parametrize("version", [None, 1])
def test_an_error_that_nothing_names_before_rows_are_read(settings: Settings, version: int | None) -> None:
    publish_what_nobody_can_read(settings, 1)
    set_route(settings, VIEW, {1: 100}, by="test", why="test")
    with pytest.raises(AnabranchError, match="KeyError") as failed:
        anabranch.read(VIEW, version, settings)
    assert failed.value.code == "READ_FAILED"
    assert counted(settings, 1) == [("READ_FAILED", "read", 3)]


def test_a_disk_that_does_not_answer(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked for the files of a day that was published beyond the cut, and before that within it."""
    small_halves.publish(settings, {DAYS[0]: 2}, DAYS[:1], version=2)
    small_halves.publish(settings, {DAYS[0]: 3}, DAYS[:1], version=2)

    def exists(_: object, path: Path) -> bool:
        if path.suffix == ".parquet":
            raise OSError(errno.EIO, "Input/output error")
        return path.exists()

    with monkeypatch.context() as broken:
        broken.setattr(type(DISK), "exists", exists)
        with pytest.raises(AnabranchError, match="Input/output error"):
            anabranch.read(VIEW, 2, settings)
    assert counted(settings, 2) == [("READ_FAILED", "read", 2)]


def test_an_old_version_that_holds_a_reader_counts_against_itself(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_route(settings, VIEW, {1: 100}, by="test", why="test")
    small_halves.merge_speed(settings, 5, DAYS[:1], version=1)
    assert anabranch.read(VIEW, settings=settings).cut.epoch("flights") == 5
    with monkeypatch.context() as racing:
        racing.setattr(routes, "covers", lambda *_: True)
        set_route(settings, VIEW, {2: 100}, by="test", why="test")
    publish_what_nobody_can_read(settings, 1)
    with pytest.raises(AnabranchError, match="KeyError"):
        anabranch.read(VIEW, settings=settings)
    assert (counted(settings, 1), counted(settings, 2)) == ([("READ_FAILED", "read", 4)], [])


@pytest.mark.parametrize("way", READ)
def test_an_error_of_arrow_that_nothing_names(settings: Settings, way: str) -> None:
    """A file has a list where the table has numbers: neither an OSError nor ArrowInvalid."""
    set_route(settings, VIEW, {2: 100}, by="test", why="test")
    reading = anabranch.read(VIEW, settings=settings)
    for file in files(settings, 2):
        rows = pq.ParquetFile(file).read()
        place, lists = rows.column_names.index("written_by"), pa.array([["x"]] * rows.num_rows)
        pq.write_table(rows.set_column(place, "written_by", lists), file)
    with pytest.raises(AnabranchError) as failed:
        READ[way](reading)
    assert failed.value.code == "READ_FAILED"
    assert counted(settings, 2) == [("READ_FAILED", "arrow" if way == "batches" else way, 3)]


def test_a_file_that_is_gone_when_a_relation_of_duckdb_is_made(settings: Settings) -> None:
    set_route(settings, VIEW, {2: 100}, by="test", why="test")
    reading = anabranch.read(VIEW, settings=settings)
    files(settings, 2)[0].unlink()
    with pytest.raises(AnabranchError) as failed:
        reading.to_duckdb()
    assert failed.value.code == "READING_EXPIRED"
    assert counted(settings, 2) == [("READING_EXPIRED", "duckdb", 3)]


def fails(error: Exception) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail


def test_what_the_reader_lacks_or_writes_wrong_does_not_count(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong: list[dict[str, Any]] = [{"view": 5}, {"reader": 7}, {"version": "2"}, {"partitions": 3}, {"columns": 4}]
    for arguments in wrong:
        with pytest.raises(TypeError):
            anabranch.read(**{"view": VIEW, "settings": settings, **arguments})
    for own, kind in ((ImportError("no package"), ImportError), (MemoryError("malloc of size 9"), AnabranchError)):
        with monkeypatch.context() as lacking:
            lacking.setattr(_read_api, "pin", fails(own))
            with pytest.raises(kind):
                anabranch.read(VIEW, settings=settings)
    assert [counted(settings, version) for version in (1, 2, 3)] == [[], [], []]
