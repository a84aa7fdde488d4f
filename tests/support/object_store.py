"""The hostile twin of the local disk: an object store in memory, which has conditional puts and nothing else.

It is moto's S3 server, so delta-rs commits to it as to any store. There is no rename, link, lock or folder. Lists are
slow, and answers get lost: a request is carried out, or isn't, and its client is told of a failure.
"""

from __future__ import annotations

import atexit
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from random import Random
from threading import Lock, Thread
from typing import Any, BinaryIO
from urllib.request import urlopen
from uuid import uuid4

import boto3  # type: ignore[import-untyped]
import psutil
from anabranch.core.storage import Entry, mounted
from botocore.config import Config  # type: ignore[import-untyped]
from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

_FAULTS = "/faults"
SLOW_LIST = 0.02
"""Seconds that a list takes."""
_LOOKS = 20
"""How often a writer looks whether an object is its own, when answers get lost."""


class _Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002 - as werkzeug names it
        pass


@dataclass
class Faults:
    """Which requests fail. ``lost`` and ``refused``: shares of the puts of names that end with ``of``, whose answer is
    lost after they were carried out, or before. ``unread``: a share of all other requests; of those after the first
    put that failed, if ``afterwards``. ``stop``: the first such put comes from a process that is stopped (SIGSTOP)
    when it has sent it, "before" it is carried out, which then waits until the process goes on, or "after"."""

    lost: float = 0.0
    refused: float = 0.0
    unread: float = 0.0
    of: str = ""
    afterwards: bool = False
    stop: str = ""


class ObjectStore:
    """A ``Storage`` that keeps what lies below ``folder`` in a bucket."""

    def __init__(self, folder: Path, address: str, bucket: str) -> None:
        self.folder, self.bucket, self.address = folder, bucket, address
        keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret", "region_name": "us-east-1"}
        config = Config(retries={"total_max_attempts": 1}, request_checksum_calculation="when_required")
        self._client: Any = boto3.client("s3", endpoint_url=address, config=config, **keys)
        self._client.create_bucket(Bucket=bucket)
        self.delta_options: Mapping[str, str] = {
            **keys,
            "aws_endpoint": address,
            "aws_allow_http": "true",
            "aws_conditional_put": "etag",
        }

    @contextmanager
    def failing(self, faults: Faults) -> Iterator[None]:
        """Until it ends requests fail as ``faults`` says."""
        self._set(faults)
        try:
            yield
        finally:
            self._set(Faults())

    @property
    def failures(self) -> int:
        """How many requests of all stores of this process have failed so far."""
        return int(self._faults())

    def _set(self, faults: Faults) -> None:
        self._faults(json.dumps(asdict(faults)).encode())

    def _faults(self, content: bytes | None = None) -> bytes:
        with urlopen(f"{self.address}{_FAULTS}", content) as answer:  # noqa: S310 - our own server
            found: bytes = answer.read()
        return found

    def uri(self, path: Path) -> str:
        return f"s3://{self.bucket}/{self._key(path)}"

    def path(self, uri: str) -> Path | None:
        own = f"s3://{self.bucket}/"
        return self.folder / uri.removeprefix(own) if uri.startswith(own) else None

    def read(self, path: Path) -> bytes:
        return bytes(self._asked("get_object", path)["Body"].read())

    def size(self, path: Path) -> int:
        return int(self._asked("head_object", path)["ContentLength"])

    def exists(self, path: Path) -> bool:
        try:
            self.size(path)
        except FileNotFoundError:
            return False
        return True

    def modified(self, path: Path) -> float:
        """Whole seconds, as stores have it."""
        return float(self._asked("head_object", path)["LastModified"].timestamp())

    def stamp(self, path: Path) -> str:
        found = self._asked("head_object", path)
        return f"{found['ETag']}-{found['LastModified']}"

    def names(self, folder: Path) -> list[str]:
        first = self._first(folder)
        return sorted({key.removeprefix(first).partition("/")[0] for key in self._keys(first)})

    def holds(self, folder: Path) -> bool:
        return bool(self._keys(self._first(folder), most=1))

    def entries(self, folder: Path, *, skip: Collection[str] = ()) -> Iterator[Entry]:
        for found in self._listed(self._first(folder)):
            path, moment = self.folder / found["Key"], found["LastModified"].timestamp()
            if not {*path.relative_to(folder).parts[:-1]} & {*skip}:
                yield Entry(path, found["Size"], moment, moment)

    def create(self, path: Path, content: bytes, *, durable: bool = False) -> bool:
        del durable  # what a store has acknowledged is
        mark = uuid4().hex
        try:
            self._asked("put_object", path, Body=content, IfNoneMatch="*", Metadata={"mark": mark})
        except OSError as error:
            if (found := self._mark(path)) is None:
                raise error from None
            return found == mark
        return True

    def write(self, path: Path, content: bytes) -> None:
        self._asked("put_object", path, Body=content)

    def remove(self, path: Path) -> None:
        with suppress(FileNotFoundError):
            self._asked("delete_object", path)

    def clear(self, folder: Path) -> None:
        for entry in self.entries(folder):
            self.remove(entry.path)

    def move(self, path: Path, to: Path) -> None:
        self.copy(path, to)
        self.remove(path)

    def copy(self, path: Path, to: Path) -> None:
        self.write(to, self.read(path))

    @contextmanager
    def reading(self, path: Path) -> Iterator[BinaryIO]:
        yield io.BytesIO(self.read(path))

    @contextmanager
    def writing(self, path: Path) -> Iterator[BinaryIO]:
        content = io.BytesIO()
        yield content
        self.write(path, content.getvalue())

    def _key(self, path: Path) -> str:
        return str(path.relative_to(self.folder))

    def _first(self, folder: Path) -> str:
        """What the keys of all objects below ``folder`` begin with."""
        return "" if folder == self.folder else f"{self._key(folder)}/"

    def _keys(self, first: str, most: int = 1_000) -> list[str]:
        return [each["Key"] for each in self._listed(first, most)]

    def _listed(self, first: str, most: int = 1_000) -> list[Any]:
        def listed() -> Any:
            return self._client.list_objects_v2(Bucket=self.bucket, Prefix=first, MaxKeys=most)

        found = self._called(listed, first)
        assert most == 1 or not found["IsTruncated"]
        return list(found.get("Contents", ()))

    def _mark(self, path: Path) -> str | None:
        """The mark of the object at ``path``; None if there is none. Raises OSError if that can't be known."""
        looks = 0
        while True:
            try:
                return str(self._asked("head_object", path)["Metadata"].get("mark", ""))
            except FileNotFoundError:
                return None
            except OSError:
                looks += 1
                if looks == _LOOKS:
                    raise

    def _asked(self, request: str, path: Path, **given: Any) -> Any:
        call = getattr(self._client, request)
        return self._called(lambda: call(Bucket=self.bucket, Key=self._key(path), **given), str(path))

    def _called(self, call: Callable[[], Any], what: str) -> Any:
        try:
            return call()
        except ClientError as error:
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            if status == 404:
                raise FileNotFoundError(what) from None
            raise (FileExistsError if status == 412 else OSError)(f"{what}: {error}") from None
        except BotoCoreError as error:
            raise OSError(f"{what}: {error}") from None


@contextmanager
def object_store(folder: Path) -> Iterator[ObjectStore]:
    """A store of its own, mounted below ``folder`` for as long as it is open."""
    store = ObjectStore(folder, _server(), f"bucket-{uuid4().hex}")
    with mounted(folder, store):
        yield store


@cache
def _server() -> str:
    """The address of this process's server. A process of its own: delta-rs holds Python's lock while it waits for
    some answers."""
    server = subprocess.Popen(
        [sys.executable, "-m", "support.object_store"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        cwd=Path(__file__).parents[1],
    )  # fmt: skip
    atexit.register(server.communicate)
    assert server.stdout is not None
    return server.stdout.readline().strip()


def _application() -> Callable[[dict[str, Any], Any], Iterable[bytes]]:
    serving: Any = DomainDispatcherApplication(create_backend_app)
    one = Lock()  # moto looks for an object and stores it in two steps
    faults, failures, chance = Faults(), 0, Random(1)
    before = 0

    def drawn(method: str, name: str) -> tuple[bool, bool]:
        """Whether a request isn't carried out, and whether its answer is lost."""
        number = chance.random()
        if method != "PUT":
            return number < faults.unread and (failures > before or not faults.afterwards), False
        if not name.endswith(faults.of):
            return False, False
        return number < faults.refused, faults.refused <= number < faults.refused + faults.lost

    def stop_client(request: Mapping[str, Any]) -> None:
        if request["REQUEST_METHOD"] != "PUT" or not (faults.stop and request["PATH_INFO"].endswith(faults.of)):
            return
        before, faults.stop = faults.stop == "before", ""
        own = [
            each.pid
            for each in psutil.net_connections("tcp")
            if each.laddr and each.laddr.port == int(request["REMOTE_PORT"])
        ]
        client = psutil.Process(next(pid for pid in own if pid not in (None, os.getpid())))
        client.suspend()
        for stopped in (False, True) if before else ():  # it takes a moment
            while (client.status() == psutil.STATUS_STOPPED) is stopped:
                time.sleep(0.01)

    def failed(start: Any) -> Iterable[bytes]:
        nonlocal failures
        failures += 1
        start("400 Bad Request", [("Content-Length", "0")])  # clients don't ask again after it
        return [b""]

    def application(request: dict[str, Any], start: Any) -> Iterable[bytes]:
        nonlocal faults, before
        if request["PATH_INFO"] == _FAULTS:
            if length := int(request.get("CONTENT_LENGTH") or 0):
                faults, before = Faults(**json.loads(request["wsgi.input"].read(length))), failures
            start("200 OK", [])
            return [str(failures).encode()]
        if "list-type" in request["QUERY_STRING"]:
            time.sleep(SLOW_LIST)
        stop_client(request)
        with one:
            refused, lost = drawn(request["REQUEST_METHOD"], request["PATH_INFO"])
            if refused:
                return failed(start)
            given: list[Any] = []
            content = b"".join(serving(request, lambda *answer: given.append(answer)))
            if lost and given[0][0].startswith("200"):
                return failed(start)
            start(*given[0])
            return [content]

    return application


if __name__ == "__main__":
    running = make_server("127.0.0.1", 0, _application(), threaded=True, request_handler=_Quiet)
    Thread(target=running.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{running.server_port}", flush=True)  # noqa: T201
    sys.stdin.read()  # it ends with the process that has started it
