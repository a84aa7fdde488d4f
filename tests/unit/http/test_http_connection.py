"""A connection to the HTTP server: what comes before a request's body is bounded, in bytes and in time."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import httpx
import pytest
import uvicorn
from anabranch.ingest.http import _connection
from anabranch.ingest.http._connection import BoundedConnection
from support.processes import eventually

pytestmark = pytest.mark.unit
HEAD = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n"


async def application(
    scope: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
) -> None:
    """Answers with the length of the body."""
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    answer = str(len(body)).encode()
    length = (b"content-length", str(len(answer)).encode())
    await send({"type": "http.response.start", "status": 200, "headers": [length]})
    await send({"type": "http.response.body", "body": answer})


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(_connection, "HEAD_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(application, http=BoundedConnection, lifespan="off", log_level="critical", ws="none")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        eventually(lambda: server.started)
        yield listening.getsockname()[1]
        server.should_exit = True
        thread.join(20)


def answer(connection: socket.socket) -> bytes:
    """Everything until the server closes the connection."""
    connection.settimeout(15)
    found = b""
    while piece := connection.recv(65_536):
        found += piece
    return found


@pytest.mark.parametrize("begun", [b"", HEAD, HEAD + b"x: y"])
def test_a_connection_that_asks_for_nothing_is_closed(port: int, begun: bytes) -> None:
    """Devices vanish in the middle of a request; each would hold one of the server's connections."""
    with socket.create_connection(("127.0.0.1", port)) as idle:
        idle.sendall(begun)
        began = time.monotonic()
        assert answer(idle) == b""
        assert 0.5 < time.monotonic() - began < 10


@pytest.mark.parametrize("piece", [b"x: " + b"y" * 1000 + b"\r\n", b"y" * 1000])
def test_headers_without_an_end_are_refused(port: int, piece: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port)) as endless:
        found = None
        with contextlib.suppress(ConnectionError):  # the server doesn't read what is still sent
            endless.sendall(HEAD + b"x: ")
            for _ in range(100):
                endless.sendall(piece)
            found = answer(endless)
        assert found is None or found.startswith(b"HTTP/1.1 400 ")
        with pytest.raises(ConnectionError):  # noqa: PT012 - the first may still fill a buffer
            for _ in range(100):
                endless.sendall(piece)
                time.sleep(0.01)


def test_requests_one_after_the_other_and_a_slow_body(port: int) -> None:
    with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
        for size in (0, 4, 200_000):
            assert client.post("/", content=b"x" * size).text == str(size)
        assert client.post("/", content=b"1", headers={"x": "y" * 30_000}).text == "1"
    with socket.create_connection(("127.0.0.1", port)) as slow:
        slow.sendall(HEAD + b"connection: close\r\n\r\n12")
        time.sleep(1.5)  # the head is there: only bodies have their own limit
        slow.sendall(b"34")
        assert answer(slow).endswith(b"\r\n\r\n4")
