"""What is wrong with the reader's own process or session is said, and is no failed read of the view's version."""

from __future__ import annotations

import errno
import gc
import weakref
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anabranch
import duckdb
import polars as pl
import pyarrow.dataset as ds
import pytest
from anabranch.core.errors import AnabranchError, BadInput, BrokenState, TryAgain
from anabranch.core.formats import newer_format
from anabranch.core.settings import Settings
from anabranch.lake.layout import VersionRef
from anabranch.serve import _read_api, _reading, _spark_failures, reader_log
from anabranch.serve._reading import Reading
from anabranch.serve._scanning import Scan
from anabranch.serve.routes import set_route
from pyspark.errors import AnalysisException
from support import small_halves
from support.small_halves import DAYS, VIEW

pytestmark = pytest.mark.unit
TORN = "org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file file://"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(_spark_failures, "_listen", lambda _: True)
    settings = Settings(home=tmp_path)
    small_halves.start_speed(settings, 1, DAYS[:1])
    set_route(settings, VIEW, {1: 100}, by="test", why="test")
    return settings


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Engine and code of each failed read."""
    found = list[tuple[str, str]]()
    monkeypatch.setattr(reader_log, "_record", lambda _, kind, read: found.append((read.engine, read.code)))
    return found


def fails(with_: Exception) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise with_

    return fail


def failed_read(settings: Settings, monkeypatch: pytest.MonkeyPatch, cause: Exception) -> AnabranchError:
    """What a reader gets when ``cause`` is raised while its rows are read."""
    reading = anabranch.read(VIEW, settings=settings)
    monkeypatch.setattr(Scan, "batches", lambda _: map(fails(cause), [1]))
    with pytest.raises(AnabranchError) as told:
        reading.to_arrow()
    return told.value


@pytest.mark.parametrize(
    "own",
    [
        duckdb.OutOfMemoryException("Out of Memory Error: could not allocate block of size 256.0 KiB"),
        duckdb.IOException('IO Error: Cannot open file "x.parquet": Too many open files'),
        OSError(errno.EMFILE, "Failed to open local file x.parquet"),
        MemoryError("malloc of size 9 failed"),
    ],
)
def test_memory_and_handles_of_the_readers_process(
    settings: Settings, counted: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch, own: Exception
) -> None:
    told = failed_read(settings, monkeypatch, own)
    assert isinstance(told, TryAgain)
    assert (told.code, counted) == ("READER_EXHAUSTED", [])


@pytest.mark.parametrize(
    ("own", "code"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "READER_EXHAUSTED"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "READER_EXHAUSTED"),
        (duckdb.IOException('IO Error: Could not write "x.tmp": No space left on device'), "READER_EXHAUSTED"),
        (PermissionError(errno.EACCES, "Permission denied"), "READER_DENIED"),
        (PermissionError(errno.EPERM, "Operation not permitted"), "READER_DENIED"),
        (OSError(errno.EROFS, "Read-only file system"), "READER_DENIED"),
        (OSError("Unable to open file x: Permission denied (os error 13)"), "READER_DENIED"),
    ],
)
def test_disk_and_rights_of_the_reader(
    settings: Settings, counted: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch, own: Exception, code: str
) -> None:
    assert (failed_read(settings, monkeypatch, own).code, counted) == (code, [])


@pytest.mark.parametrize(
    "denied",
    [
        PermissionError(errno.EACCES, "Permission denied", "lake/views/delays/v2/batch/part-0.parquet"),
        OSError("Failed to open local file 'v2/batch/_delta_log/00000000000000000007.json': Permission denied"),
    ],
)
def test_a_file_of_the_version_that_nobody_may_read_counts(
    settings: Settings, counted: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch, denied: Exception
) -> None:
    """Else a version whose writer has the wrong umask would be moved to, and every reader fail."""
    assert isinstance(failed_read(settings, monkeypatch, denied), BrokenState)
    assert counted == [("arrow", "FILE_UNREADABLE")]


def test_packages_that_do_not_fit_together(
    settings: Settings, counted: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function of theirs is gone, is called by another one with what it doesn't know, or does nothing yet."""
    reading = anabranch.read(VIEW, settings=settings)
    filtered = anabranch.read(VIEW, settings=settings, where="origin = 'x'")
    with monkeypatch.context() as older:
        older.delattr(pl, "scan_parquet")
        older.delattr(duckdb, "connect")
        older.setattr(ds, "_filesystem_dataset", lambda: None)
        for attempt in (lambda: reading.to_polars(lazy=True), filtered.to_duckdb, reading.to_arrow):
            with pytest.raises(BadInput, match="pip check") as told:
                attempt()
            assert (told.value.code, counted) == ("READER_INSTALLATION", [])
    assert reading.to_arrow().num_rows > 0


def test_an_error_of_ours_counts_though_it_is_of_the_same_kind(
    settings: Settings, counted: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Damaged data leads to such ones, too."""
    reading = anabranch.read(VIEW, settings=settings)
    wrong: list[Callable[..., Any]] = [lambda _: None.rows, lambda _: None + 1, fails(NotImplementedError())]  # type: ignore[attr-defined,operator]
    for number, ours in enumerate(wrong, 1):
        monkeypatch.setattr(Scan, "batches", ours)
        with pytest.raises(BrokenState):
            reading.to_arrow()
        assert counted == [("arrow", "READ_FAILED")] * number


def unreadable(cause: Exception) -> AnabranchError:
    error = BrokenState("TABLE_UNREADABLE", "a table can't be opened")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "codes"),
    [
        (newer_format("the home", "home", 9, 1, "9.9.9"), []),
        (BrokenState("HOME_UNREADABLE", "the home can't be read"), []),
        (unreadable(OSError("Too many open files (os error 24)")), []),
        (unreadable(OSError("Permission denied (os error 13)")), [("read", "TABLE_UNREADABLE")]),
        (unreadable(OSError("Input/output error (os error 5)")), [("read", "TABLE_UNREADABLE")]),
        (BadInput("VIEW_UNKNOWN", "there is no view"), [("read", "VIEW_UNKNOWN")]),
        (BadInput("WHERE_REFUSED", "refused"), []),
    ],
)
def test_errors_before_any_row_is_read(
    settings: Settings,
    counted: list[tuple[str, str]],
    monkeypatch: pytest.MonkeyPatch,
    error: AnabranchError,
    codes: list[tuple[str, str]],
) -> None:
    monkeypatch.setattr(_read_api, "read_untracked", fails(error))
    with pytest.raises(AnabranchError) as told:
        anabranch.read(VIEW, settings=settings)
    assert (told.value, counted) == (error, codes)


def session(error: str = "", zone: str = "UTC") -> Any:
    """A Spark session that can't load anything, if there is an ``error``."""
    found: Any = AnalysisException(error) if error else None
    reader: Any = SimpleNamespace(option=lambda *_: reader, load=fails(found or ValueError("not mocked")))
    return SimpleNamespace(read=SimpleNamespace(format=lambda _: reader), conf=SimpleNamespace(get=lambda _: zone))


def test_a_session_that_can_not_read_delta(settings: Settings, counted: list[tuple[str, str]]) -> None:
    reading = anabranch.read(VIEW, settings=settings)
    for own in (
        "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: delta.",
        "[DELTA_CONFIGURE_SPARK_SESSION_WITH_EXTENSION_AND_CATALOG] This Delta operation requires the SparkSession",
        "Cannot call methods on a stopped SparkContext.",
    ):
        with pytest.raises(BadInput) as told:
            reading.to_spark(session(own))
        assert (told.value.code, counted) == ("SESSION_UNFIT", [])
    table = VersionRef(settings, VIEW, 1).speed_table
    for broken in (
        f"[DELTA_PATH_DOES_NOT_EXIST] file:{table} doesn't exist, or is not a Delta table.",
        f"[PATH_NOT_FOUND] Path does not exist: file:{table}",
        "[DELTA_VERSION_NOT_FOUND] Cannot time travel Delta table to version 5.",
    ):
        with pytest.raises(BrokenState):
            reading.to_spark(session(broken))
    assert counted == [("spark", "FILE_UNREADABLE")] * 3


def test_a_session_in_another_time_zone_compares_no_times(settings: Settings, counted: list[tuple[str, str]]) -> None:
    berlin = session(zone="Europe/Berlin")
    timed = anabranch.read(VIEW, settings=settings, where="window_start > '2013-01-01 00:00'")
    with pytest.raises(BadInput, match="Europe/Berlin") as told:
        timed.to_spark(berlin)
    assert (told.value.code, counted) == ("SESSION_UNFIT", [])
    other = anabranch.read(VIEW, settings=settings, where="origin = 'x'")
    for reading, spark in ((other, berlin), (timed, session(zone="Etc/UTC"))):
        with pytest.raises(ValueError, match="not mocked"):
            reading.to_spark(spark)


class Rows(SimpleNamespace):
    """A DataFrame that has an alias."""

    def alias(self, name: str) -> str:
        return name


def watched(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> tuple[str, Reading]:
    """The alias of a reading's DataFrame, which Spark never sees, and the reading."""
    reading = anabranch.read(VIEW, settings=settings)
    rows = Rows(select=lambda *_: Rows())
    with monkeypatch.context() as without_spark:
        without_spark.setattr(_reading.Reading, "_spark_table", lambda *_: rows)
        alias: Any = reading.to_spark(session())
    return alias, reading


class Failed:
    """A failed query, and its error, as py4j has them."""

    def __init__(self, text: str) -> None:
        self.toString = lambda: text
        self.getCause = lambda: None
        self.analyzed = lambda: self


def test_only_files_of_the_readings_tables_count(
    settings: Settings, counted: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    alias, _ = watched(settings, monkeypatch)
    query, listener = Failed(f"SubqueryAlias {alias}"), _spark_failures._Listener()
    table = VersionRef(settings, VIEW, 1).speed_table
    for own in ("/data/mine.parquet", f"{table}/x.parquet: Too many open files"):
        listener.onFailure("collect", query, Failed(TORN + own))
    listener.onFailure("collect", query, Failed(f"java.io.IOException: {table}/x.parquet"))
    listener.onFailure("collect", Failed("another query"), Failed(f"{TORN}{table}/x.parquet"))
    assert counted == []
    listener.onFailure("collect", query, Failed(f"{TORN}{table}/x.parquet"))
    listener.onFailure("collect", query, Failed(f"java.io.FileNotFoundException: File {table}/x.parquet"))
    assert counted == [("spark", "FILE_UNREADABLE"), ("spark", "READING_EXPIRED")]


def test_a_reading_is_not_kept_alive_by_being_watched(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_spark_failures, "_MAX_WATCHED", 3)
    monkeypatch.setattr(_spark_failures, "_watched", OrderedDict())  # other tests' readings are in it
    _, reading = watched(settings, monkeypatch)
    alive = weakref.ref(reading)
    del reading
    gc.collect()
    assert alive() is None
    aliases = [watched(settings, monkeypatch)[0] for _ in range(5)]
    assert list(_spark_failures._watched) == aliases[2:]
