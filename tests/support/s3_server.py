"""An S3 server that can go away and come back: moto's, in a thread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from moto.server import ThreadedMotoServer

BUCKET = "history"


@dataclass
class S3Server:
    """What it holds stays while it is away."""

    server: ThreadedMotoServer
    is_away: bool = False

    @property
    def address(self) -> str:
        host, port = self.server.get_host_and_port()
        return f"http://{host}:{port}"

    @property
    def variables(self) -> dict[str, str]:
        """For a process that uses it."""
        keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
        return {"AWS_ENDPOINT_URL": self.address, "AWS_REGION": "us-east-1", **keys}

    def goes_away(self) -> None:
        self.server.stop()
        self.is_away = True

    @contextmanager
    def away(self) -> Iterator[None]:
        """It is there again behind the block, also when that fails: what waits for it ends."""
        self.goes_away()
        try:
            yield
        finally:
            if self.is_away:
                self.comes_back()

    def comes_back(self) -> None:
        host, port = self.server.get_host_and_port()
        self.server = ThreadedMotoServer(ip_address=host, port=port, verbose=False)
        self.server.start()
        self.is_away = False

    def put(self, objects: Mapping[str, bytes]) -> None:
        """Put objects, by key, into ``BUCKET``, which is created."""
        import boto3  # type: ignore[import-untyped]

        keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}
        client = boto3.client("s3", endpoint_url=self.address, **keys)
        client.create_bucket(Bucket=BUCKET)
        for key, content in objects.items():
            client.put_object(Bucket=BUCKET, Key=key, Body=content)
        client.close()


@contextmanager
def s3_server() -> Iterator[S3Server]:
    found = S3Server(ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False))
    found.server.start()
    try:
        yield found
    finally:
        with suppress(OSError):
            found.goes_away()
