"""An error of the disk is named, whatever a library says that cleans up behind it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from anabranch.core.errors import AnabranchError, TryAgain, disk_error, root_cause
from anabranch.core.storage import LocalDisk
from anabranch.ingest.files._full_disk import full_disk
from anabranch.lake.files import stage_arrow

pytestmark = pytest.mark.unit
ROWS = pa.table({"text": [os.urandom(500).hex() for _ in range(200)]})


class _Full:
    """A file on a disk that has room for some bytes more."""

    def __init__(self, file: object, room: int) -> None:
        self.file, self.room, self.closed = file, room, False

    def write(self, data: bytes) -> int:
        self.room -= len(data)
        if self.room < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return int(self.file.write(data))  # type: ignore[attr-defined]

    def __getattr__(self, name: str) -> object:
        return getattr(self.file, name)


@pytest.fixture
def failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RuntimeError:
    """What Arrow's writer of Parquet raises on a disk that fills up under it."""
    whole = LocalDisk.writing

    @contextmanager
    def writing(self: LocalDisk, path: Path) -> Iterator[object]:
        with whole(self, path) as file:
            yield _Full(file, 10_000)

    monkeypatch.setattr(LocalDisk, "writing", writing)
    with pytest.raises(RuntimeError, match="only available after writer close") as caught:
        stage_arrow(ROWS, str(tmp_path / "table"), "build", None)
    return caught.value


def test_arrow_hides_it_and_it_is_named_first(failed: Exception) -> None:
    found = disk_error(failed)
    assert found is not None
    assert found.errno == errno.ENOSPC
    assert root_cause(failed).startswith("[Errno 28] No space left on device")
    assert str(failed) in root_cause(failed)


def test_a_load_calls_it_a_full_disk(failed: Exception) -> None:
    with pytest.raises(TryAgain) as told, full_disk("here", "orders"):
        raise failed
    assert told.value.code == "DISK_FULL"
    assert "No space left on device" in str(told.value)


@pytest.mark.parametrize("number", [errno.EROFS, errno.EDQUOT, errno.EIO])
def test_other_errors_of_disks(number: int) -> None:
    assert root_cause(_behind(OSError(number, "the disk"))) == f"[Errno {number}] the disk (then: and then this)"


@pytest.mark.parametrize("first", [FileNotFoundError(errno.ENOENT, "none"), KeyError("a"), OSError("no number")])
def test_what_was_merely_handled_before_is_no_cause(first: Exception) -> None:
    assert disk_error(_behind(first)) is None
    assert root_cause(_behind(first)) == "and then this"


def test_an_error_that_names_its_cause_says_itself_what_happened() -> None:
    told = AnabranchError("CODE", "the disk is full")
    told.__context__ = told.__cause__ = OSError(errno.ENOSPC, "full")  # as by ``raise told from ...``
    assert disk_error(told) is None
    assert root_cause(told) == "the disk is full [CODE]"


def _behind(first: Exception) -> RuntimeError:
    try:
        try:
            raise first
        finally:
            raise RuntimeError("and then this")
    except RuntimeError as error:
        return error
