"""Files in S3 are found and read by the usual variables (against moto's server)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from anabranch.core.errors import BadInput, TryAgain
from anabranch.ingest.files import _remote, find_files
from anabranch.ingest.files._remote import copy_object
from moto.server import ThreadedMotoServer

pytestmark = pytest.mark.unit


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    import boto3  # type: ignore[import-untyped]

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    for name, value in {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    client = boto3.client("s3", endpoint_url=address, region_name="us-east-1")
    client.create_bucket(Bucket="history")
    keys = ("2023/b.jsonl", "2023/a.csv", "2023/notes.txt", "2024/c.jsonl")
    hidden = ("_tmp/_delta_log/0.json", "_tmp/.part/d.csv", "_tmp/_SUCCESS.csv", "_tmp/e.csv", "_tmp/f.parquet.gz")
    for key in (*keys, *hidden):
        client.put_object(Bucket="history", Key=key, Body=key.encode())
    client.close()
    yield "s3://history"
    server.stop()


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
