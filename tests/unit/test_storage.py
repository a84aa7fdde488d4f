"""The seam to storage: what each store must do, and who must not go past it."""

from __future__ import annotations

import ast
import errno
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from anabranch.core.storage import DISK, listed, path_of, storage_of
from support.object_store import Faults, object_store
from support.our_packages import PACKAGE, inside, modules

pytestmark = pytest.mark.unit


def test_an_object_is_there_whole_until_it_is_removed(place: Path) -> None:
    storage, path = storage_of(place), place / "a" / "b" / "object"
    assert not storage.exists(path)
    for read in (storage.read, storage.size):
        with pytest.raises(FileNotFoundError):
            read(path)
    storage.write(path, b"one")
    storage.write(path, b"two, longer")
    assert (storage.read(path), storage.size(path), storage.exists(path)) == (b"two, longer", 11, True)
    storage.remove(path)
    storage.remove(path)
    assert not storage.exists(path)


def test_of_those_who_create_an_object_at_once_one_wins(place: Path) -> None:
    storage = storage_of(place)
    for number in range(5):
        path = place / "objects" / str(number)
        with ThreadPoolExecutor(4) as pool:
            made = list(pool.map(lambda text, path=path: storage.create(path, text, durable=True), [b"a", b"b", b"c"]))
        assert sorted(made) == [False, False, True]
        assert storage.read(path) == b"abc"[made.index(True) :][:1]


def test_the_same_content_of_another_is_not_taken_for_its_own(place: Path) -> None:
    storage, path = storage_of(place), place / "object"
    assert storage.create(path, b"same")
    assert not storage.create(path, b"same")


def test_whose_object_it_is_when_its_answer_was_lost(tmp_path: Path) -> None:
    with object_store(tmp_path) as store:
        with store.failing(Faults(lost=1.0)):
            assert store.create(tmp_path / "mine", b"same")
        with store.failing(Faults(refused=1.0)):
            assert not store.create(tmp_path / "mine", b"same")
            with pytest.raises(OSError, match="nobody"):
                store.create(tmp_path / "nobody", b"same")
        with store.failing(Faults(lost=1.0, unread=1.0)), pytest.raises(OSError, match="unknown"):
            store.create(tmp_path / "unknown", b"same")


def test_names_are_those_of_one_folder(place: Path) -> None:
    storage = storage_of(place)
    assert (storage.names(place / "none"), list(storage.entries(place / "none"))) == ([], [])
    paths = [place / "f" / name for name in ("a", "b.json", "sub/c", "sub/deep/d")]
    for path in (*paths, place / "f2", place / "g" / "x"):
        storage.write(path, b"")
    assert sorted(storage.names(place / "f")) == ["a", "b.json", "sub"]
    assert sorted(entry.path for entry in storage.entries(place / "f")) == paths
    assert [entry.path.name for entry in storage.entries(place / "f", skip=("sub", "a"))] in (
        ["a", "b.json"],
        ["b.json", "a"],
    )
    assert sorted(storage.names(place)) == ["f", "f2", "g"]
    assert (storage.names(paths[0]), list(storage.entries(paths[0]))) == ([], [])


def test_a_folder_is_there_as_long_as_it_holds_something(place: Path) -> None:
    storage = storage_of(place)
    storage.write(place / "f" / "g" / "object", b"")
    found = [storage.holds(place / name) for name in ("f", "f/g", "f/g/object", "none")]
    assert found == [True, True, False, False]


def test_an_object_says_when_it_was_written_and_whether_it_is_another(place: Path) -> None:
    storage, path = storage_of(place), place / "object"
    for read in (storage.modified, storage.stamp):
        with pytest.raises(FileNotFoundError):
            read(path)
    storage.write(path, b"one")
    first = storage.stamp(path)
    assert abs(storage.modified(path) - time.time()) < 5
    assert storage.stamp(path) == first
    storage.write(path, b"two")
    assert storage.stamp(path) != first


def test_a_cleared_folder_is_gone_and_no_other(place: Path) -> None:
    storage = storage_of(place)
    for name in ("f/a", "f/g/b", "f2/c"):
        storage.write(place / name, b"")
    for _ in range(2):
        storage.clear(place / "f")
        assert (list(storage.entries(place / "f")), storage.names(place)) == ([], ["f2"])


def test_what_is_listed_matches_and_is_sorted(place: Path) -> None:
    for name in ("b.json", "a.json", "a.txt", "v2.json/c"):
        storage_of(place).write(place / "f" / name, b"")
    assert listed(place / "f", "*.json") == [place / "f" / name for name in ("a.json", "b.json", "v2.json")]
    assert len(listed(place / "f")) == 4
    assert listed(place / "none") == []


def test_a_moved_object_has_its_new_name_only(place: Path) -> None:
    storage = storage_of(place)
    storage.write(place / "a", b"content")
    storage.move(place / "a", place / "new" / "b")
    assert storage.read(place / "new" / "b") == b"content"
    assert not storage.exists(place / "a")
    with pytest.raises(FileNotFoundError):
        storage.move(place / "a", place / "c")


def test_a_copy_stays_when_what_it_was_made_of_is_removed(place: Path) -> None:
    storage = storage_of(place)
    storage.write(place / "a", b"content")
    storage.copy(place / "a", place / "new" / "b")
    storage.remove(place / "a")
    assert storage.read(place / "new" / "b") == b"content"
    with pytest.raises(FileNotFoundError):
        storage.copy(place / "a", place / "c")


def test_a_disk_without_links_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.EXDEV, "another file system")

    monkeypatch.setattr("os.link", refused)
    (tmp_path / "a").write_bytes(b"content")
    DISK.copy(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == b"content"


def test_a_large_object_is_written_and_read_in_parts(place: Path) -> None:
    storage, path = storage_of(place), place / "below" / "large"
    with storage.writing(path) as file:
        for number in range(10):
            file.write(bytes([number]) * 1_000)
        assert file.tell() == 10_000
    with storage.reading(path) as file:
        file.seek(5_000)
        assert file.read(2) == b"\x05\x05"


def test_a_path_and_what_delta_calls_it(place: Path) -> None:
    path = place / "views" / "v1"
    assert path_of(storage_of(path).uri(path)) == path
    assert path_of(f"file://{path}") == path


def test_a_draft_of_a_failed_write_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "replace", full)
    monkeypatch.setattr("os.link", full)
    for write in (DISK.write, DISK.create):
        with pytest.raises(OSError, match="no space"):
            write(tmp_path / "object", b"content")
    assert list(tmp_path.iterdir()) == []


def test_what_was_made_is_no_error_though_its_draft_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def kept(*_: object, **__: object) -> None:
        raise OSError("read-only file system")

    monkeypatch.setattr(Path, "unlink", kept)
    assert DISK.create(tmp_path / "object", b"content")
    assert DISK.read(tmp_path / "object") == b"content"


BY_ITSELF = {
    "exists", "glob", "hardlink_to", "is_dir", "is_file", "iterdir", "lstat", "mkdir", "open", "read_bytes",
    "read_text", "rename", "rglob", "rmdir", "stat", "symlink_to", "touch", "unlink", "write_bytes", "write_text",
}  # fmt: skip
"""What a path does on the local disk."""
BY_MODULES = (
    "shutil.", "os.link", "os.listdir", "os.readlink", "os.remove", "os.rename", "os.replace", "os.scandir", "os.utime",
    "os.walk",
)  # fmt: skip
THROUGH = (
    "lake", "certify", "serve", "change", "compute", "views", "ingest/landing", "operate/maintenance", "operate/doctor",
)  # fmt: skip
"""Packages that reach tables, control files and fences."""
ON_THE_DISK = {
    # Spark's checkpoints, which Spark itself writes
    "lake/streams/stream_checkpoint.py", "compute/speed/checkpoint_handover.py", "ingest/landing/checkpoint.py",
    "ingest/landing/log_trimming.py", "ingest/landing/audit/accepted_losses.py",
    "change/replay/cleanup.py", "operate/doctor/_landing_consistency.py", "operate/doctor/_view_rows.py",
    # files of the project
    "views/function_source.py", "views/project.py", "views/sql_file.py", "compute/speed/_definition_watcher.py",
    # what one machine makes for itself: the index of ids, the mark of a run beside landing, pages, its processes
    "ingest/landing/id_index.py", "ingest/landing/id_hashes.py", "ingest/landing/epoch_pacing.py",
    "certify/_static_pages.py", "certify/data_docs.py",
    "operate/maintenance/_orphans.py", "operate/doctor/_processes.py",
    # locks, which are the local disk's
    "lake/layout.py",
    # Arrow's own reader, where it is the disk
    "lake/files/_staging.py",
    # not yet: mirrors of landing link its files for Spark
    "change/replay/landing_mirror.py", "operate/doctor/_replays.py",
}  # fmt: skip


def test_tables_control_files_and_fences_go_through_the_seam() -> None:
    files = [path for package in THROUGH for path in (PACKAGE / package).rglob("*.py")]
    files += (PACKAGE / "core").glob("control_*.py")
    assert len(files) > 150
    past = [path for path in files if any(map(_is_past_it, ast.walk(ast.parse(path.read_text()))))]
    assert {str(path.relative_to(PACKAGE)) for path in past} == ON_THE_DISK


def _is_past_it(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return False
    text = ast.unparse(node.func)
    if text in ("pq.ParquetFile", "pq.read_metadata", "pq.read_schema", "pq.read_table"):
        return True
    spark = text.startswith("F.")  # functions of columns: F.exists
    return text.startswith(BY_MODULES) or (node.func.attr in BY_ITSELF and not spark and not text.startswith("storage"))


def test_tables_are_opened_in_one_place() -> None:
    opening = [
        inside(path)
        for path in modules().values()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "DeltaTable"
    ]
    assert opening == ["lake/log/delta_tables.py"]
