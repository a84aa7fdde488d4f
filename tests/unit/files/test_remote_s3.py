"""Files in S3 are found and read by the usual variables, and waited for while S3 is away (against moto's server)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from anabranch.apps.cli.main import app
from anabranch.core.errors import BadInput, TryAgain
from anabranch.core.settings import Settings
from anabranch.ingest.files import Patience, _remote, find_files, waiting_loads
from anabranch.ingest.files._remote import copy_object
from anabranch.ingest.files._store_away import until_there
from support.s3_server import BUCKET, S3Server, s3_server
from typer.testing import CliRunner

pytestmark = pytest.mark.unit


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home")


@pytest.fixture
def store() -> Iterator[S3Server]:
    with s3_server() as running:
        yield running


@pytest.fixture
def bucket(store: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in store.variables.items():
        monkeypatch.setenv(name, value)
    keys = ("2023/b.jsonl", "2023/a.csv", "2023/notes.txt", "2024/c.jsonl")
    hidden = ("_tmp/_delta_log/0.json", "_tmp/.part/d.csv", "_tmp/_SUCCESS.csv", "_tmp/e.csv", "_tmp/f.parquet.gz")
    store.put({key: key.encode() for key in (*keys, *hidden)})
    return f"s3://{BUCKET}"


def test_objects_below_a_prefix(bucket: str, tmp_path: Path) -> None:
    assert [a.name for a in find_files([f"{bucket}/2023"])] == [f"{bucket}/2023/a.csv", f"{bucket}/2023/b.jsonl"]
    assert len(find_files([f"{bucket}/2023/", f"{bucket}/2023/a.csv", bucket])) == 3
    assert [a.name for a in find_files([f"{bucket}/_tmp/"])] == [f"{bucket}/_tmp/e.csv"], "hidden below what was named"
    assert [a.name for a in find_files([f"{bucket}/_tmp/_SUCCESS.csv"])] == [f"{bucket}/_tmp/_SUCCESS.csv"]
    with pytest.raises(BadInput, match="for json lines and csv only"):
        find_files([f"{bucket}/_tmp/f.parquet.gz"])
    copy_object(f"{bucket}/2023/b.jsonl", tmp_path / "object")
    assert (tmp_path / "object").read_text() == "2023/b.jsonl"
    with pytest.raises(BadInput, match="no file to load"):
        find_files([f"{bucket}/2022"])


def test_an_object_that_changes_while_it_is_copied_is_refused(
    bucket: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of the same size, and within the same second."""
    real = _remote._store

    def store() -> Any:
        return Replacing(real(), f"{bucket}/2023/a.csv")

    monkeypatch.setattr(_remote, "_store", store)
    with pytest.raises(BadInput, match="it was changed while it was read") as refused:
        copy_object(f"{bucket}/2023/a.csv", tmp_path / "object")
    assert refused.value.code == "FILE_UNREADABLE"


class Replacing:
    """Replaces an object once it is open."""

    def __init__(self, store: Any, name: str) -> None:
        self.store, self.path, self.replaced = store, name.removeprefix("s3://"), False

    def open_input_stream(self, path: str) -> Any:
        stream = self.store.open_input_stream(path)
        if not self.replaced:
            self.replaced = True
            with self.store.open_output_stream(self.path) as other:
                other.write(b"2023/b.csv")
        return stream


def test_a_local_disk_s_fault_is_not_the_store_s(bucket: str, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="missing"):
        copy_object(f"{bucket}/2023/a.csv", tmp_path / "missing" / "object")
    with pytest.raises(TryAgain) as full:
        copy_object(f"{bucket}/2023/a.csv", Path("/dev/full"))
    assert full.value.code == "DISK_FULL"
    assert "nothing of it was loaded" in str(full.value)


def test_no_server_is_no_empty_folder(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(TryAgain) as away:
        find_files([f"{bucket}/2023"])
    assert away.value.code == "STORE_UNREACHABLE"


def eventually(found: Callable[[], Any]) -> Any:
    until = time.monotonic() + 30
    while not (value := found()) and time.monotonic() < until:
        time.sleep(0.05)
    return value


def test_a_store_that_is_away_is_waited_for_and_seen(
    bucket: str, store: S3Server, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANABRANCH_HOME", str(settings.home))
    said, other = list[str](), list[str]()
    with ThreadPoolExecutor() as pool, store.away():
        found = pool.submit(find_files, [f"{bucket}/2023"], Patience(settings, "payments", said.append))
        assert eventually(lambda: said), "it says so once it is shown"
        shown = waiting_loads(settings)
        assert list(shown) == ["payments"]
        assert "s3://history/2023 can't be read" in shown["payments"]
        again = pool.submit(find_files, [f"{bucket}/2024"], Patience(settings, "payments", other.append))
        assert eventually(lambda: other), "two loads of one topic may wait"
        status = CliRunner().invoke(app, ["status"]).stdout
        assert "load into payments waits: s3://history/2023 can't be read" in status
        assert not found.done()
        store.comes_back()
        assert [address.name for address in found.result(60)] == [f"{bucket}/2023/a.csv", f"{bucket}/2023/b.jsonl"]
        assert [address.name for address in again.result(60)] == [f"{bucket}/2024/c.jsonl"]
    assert said[0].startswith("waits: s3://history/2023 can't be read: ")
    assert "it tries again in 1 s, and for 1 h at most" in said[0]
    assert said[-1] == "the store is there again"
    assert waiting_loads(settings) == {}
    assert "waits" not in CliRunner().invoke(app, ["status"]).stdout


def test_a_copy_that_the_store_interrupts_begins_again(
    bucket: str, store: S3Server, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server goes away when the object is open, behind its first bytes."""
    monkeypatch.setattr(_remote, "_CHUNK", 4)
    said, real = list[str](), _remote._store

    class Leaving:
        def open_input_stream(self, path: str) -> Any:
            stream = real().open_input_stream(path)
            stream.read(4)
            store.goes_away()
            monkeypatch.setattr(_remote, "_store", real)
            return stream

    def back_again(line: str) -> None:
        said.append(line)
        if line.startswith("waits: "):
            store.comes_back()

    monkeypatch.setattr(_remote, "_store", Leaving)
    until_there(partial(copy_object, f"{bucket}/2023/b.jsonl", tmp_path / "o"), Patience(settings, "p", back_again))
    assert (tmp_path / "o").read_text() == "2023/b.jsonl"
    assert [line.partition(":")[0] for line in said] == ["waits", "the store is there again"]


def test_it_is_not_waited_for_for_ever(bucket: str, store: S3Server, settings: Settings) -> None:
    said = list[str]()
    store.goes_away()
    with pytest.raises(TryAgain) as away:
        find_files([f"{bucket}/2023"], Patience(settings, "payments", said.append, limit=2.0))
    assert away.value.code == "STORE_UNREACHABLE"
    assert "it was waited for, for 2 s" in away.value.what
    assert said
    assert waiting_loads(settings) == {}, "it has ended"


def test_what_no_time_mends_is_not_waited_for(bucket: str, store: S3Server, settings: Settings, tmp_path: Path) -> None:
    said = list[str]()
    patience = Patience(settings, "payments", said.append)
    with pytest.raises(BadInput, match="no file to load"):
        find_files(["s3://elsewhere/2023"], patience)
    with pytest.raises(TryAgain) as missing:
        until_there(partial(copy_object, f"{bucket}/2023/z.csv", tmp_path / "object"), patience)
    asked_for_keys(store, after=0)
    try:
        with pytest.raises(TryAgain) as refused:
            find_files([f"{bucket}/2023"], patience)
    finally:
        asked_for_keys(store, after=math.inf)
    assert [each.value.code for each in (missing, refused)] == ["STORE_UNREACHABLE"] * 2
    assert "ACCESS_DENIED" in refused.value.what
    assert said == []


def asked_for_keys(store: S3Server, after: float) -> None:
    """After so many requests moto asks for keys that it knows, and it knows none."""
    asked = Request(f"{store.address}/moto-api/reset-auth", str(after).encode(), {"Content-Type": "text/plain"})  # noqa: S310
    with urlopen(asked) as answer:  # noqa: S310
        assert answer.status == 200


@pytest.mark.parametrize(
    ("said", "is_away"),
    [
        ("AWS Error UNKNOWN (HTTP status 503) during HeadObject operation: No response body.", True),
        ("AWS Error UNKNOWN (HTTP status 429) during HeadObject operation: No response body.", True),
        ("AWS Error SLOW_DOWN during ListObjectsV2 operation: reduce your request rate", True),
        ("AWS Error UNKNOWN (HTTP status 301) during HeadObject operation: No response body.", False),
        ("AWS Error SIGNATURE_DOES_NOT_MATCH during ListObjectsV2 operation: the keys differ", False),
        ("AWS Error NETWORK_CONNECTION during HeadObject operation: curlCode: 60, SSL peer certificate", False),
        ("[Errno 2] Path does not exist 'b/x'. Detail: [errno 2] No such file or directory", False),
    ],
)
def test_which_errors_say_that_a_store_is_away(said: str, is_away: bool) -> None:
    assert _remote._unreachable("s3://b/x", OSError(said)).fields["away"] is is_away
