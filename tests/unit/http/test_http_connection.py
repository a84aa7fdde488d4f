"""A connection to the HTTP server: all but the body of a request that waits is bounded, in bytes and in time."""

from __future__ import annotations

import asyncio
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
    """Answers with the length of the body; below /refused without waiting for it, below /slow after seconds,
    below /large with megabytes."""
    body, more = b"", scope["path"] != "/refused"
    if scope["path"] == "/slow":
        await asyncio.sleep(3)
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    answer = b"x" * 20_000_000 if scope["path"] == "/large" else str(len(body)).encode()
    length = (b"content-length", str(len(answer)).encode())
    await send({"type": "http.response.start", "status": 200, "headers": [length]})
    await send({"type": "http.response.body", "body": answer})


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(_connection, "HEAD_SECONDS", 1.0)
    monkeypatch.setattr(_connection, "UNREAD_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(application, http=BoundedConnection, lifespan="off", log_level="critical", ws="none")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        eventually(lambda: server.started)
        yield listening.getsockname()[1]
        server.should_exit = True
        thread.join(20)


REFUSED = b"POST /refused HTTP/1.1\r\nhost: a\r\n"
GET = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"


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


def refused(port: int, head: bytes) -> socket.socket:
    """A connection whose request was answered before its body came."""
    connection = socket.create_connection(("127.0.0.1", port))
    connection.sendall(REFUSED + head + b"\r\n")
    connection.settimeout(5)
    assert connection.recv(65_536).startswith(b"HTTP/1.1 200 ")
    return connection


@pytest.mark.parametrize("begin", [b"0\r\n", b"0\r\nx: ", b"0;"])
def test_what_stands_behind_the_body_has_an_end(port: int, begin: bytes) -> None:
    """Trailers and extensions of chunks; the request was answered long ago."""
    with refused(port, b"transfer-encoding: chunked\r\n") as endless:
        piece = b"x: y\r\n" * 1_000 if begin.endswith(b"\n") else b"y" * 5_000
        endless.sendall(begin)
        with pytest.raises(ConnectionError):  # noqa: PT012
            for _ in range(50):
                endless.sendall(piece)
                time.sleep(0.01)


def test_trailers_are_no_headers_and_no_obstacle(port: int) -> None:
    body = b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nx: y\r\nz: y\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(body + GET.replace(b"host: a", b"connection: close"))
        found = answer(connection)
    assert (found.count(b"HTTP/1.1 200 "), b"\r\n\r\n2" in found) == (2, True)


def test_many_small_headers_are_as_large_as_they_are_in_memory(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(HEAD + b"x:\r\n" * 10_000 + b"\r\nabcd")
        with contextlib.suppress(ConnectionError):
            assert answer(connection).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("later", [b"\r\n", b"x"])
def test_bytes_after_an_answer_hold_no_connection(port: int, later: bytes) -> None:
    """An empty line between requests, or the body of one that is answered."""
    with refused(port, b"content-length: %d\r\n" % (0 if later == b"\r\n" else 1_000_000)) as held:
        began = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while time.monotonic() - began < 10:
                held.sendall(later)
                held.settimeout(0.2)
                with contextlib.suppress(TimeoutError):
                    assert held.recv(65_536) == b""
                    break
        assert 0.5 < time.monotonic() - began < 10


def test_a_body_that_ends_soon_after_the_answer_keeps_the_connection(port: int) -> None:
    with refused(port, b"content-length: 200000\r\n") as connection:
        connection.sendall(b"x" * 200_000)
        connection.sendall(GET.replace(b"host: a", b"connection: close"))
        assert answer(connection).startswith(b"HTTP/1.1 200 ")


def test_requests_that_are_sent_ahead_are_bounded(port: int) -> None:
    slow = GET.replace(b"/ ", b"/slow ")
    for ahead, answered in ((_connection.MOST_AHEAD, _connection.MOST_AHEAD + 1), (_connection.MOST_AHEAD + 1, 0)):
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(slow + (GET * ahead)[: -len(GET)] + GET.replace(b"host: a", b"connection: close"))
            assert answer(connection).count(b"HTTP/1.1 200 ") == answered, "of none it is said that it is wrong"


def test_a_wrong_request_is_no_answer_to_the_one_before_it(port: int) -> None:
    """That may be in the log already: 400 would say that nothing was sent."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(GET.replace(b"/ ", b"/slow "))
        time.sleep(0.2)
        connection.sendall(b"\x00\x00\r\n\r\n")
        assert answer(connection) == b""


@pytest.mark.parametrize("requests", [1, 5])
def test_answers_that_nobody_reads_hold_no_connection(port: int, requests: int) -> None:
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        deaf.connect(("127.0.0.1", port))
        for _ in range(requests):
            deaf.sendall(GET.replace(b"/ ", b"/large "))
        with pytest.raises(ConnectionError):  # noqa: PT012
            for _ in range(10):
                time.sleep(1)
                deaf.sendall(b"\r\n")
