"""Servers of this process that stand for those of other people: one takes posts of JSON, one takes mail."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True, slots=True)
class Outside:
    """Both servers: what was posted to the one, and mailed to the other."""

    hook: str
    posted: list[dict[str, Any]]
    mail_port: int
    mailed: list[str]


@contextmanager
def posts() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The address of a server, and what is posted to it."""
    taken = list[dict[str, Any]]()

    class Takes(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            taken.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Takes) as server, _served(server):
        yield f"http://127.0.0.1:{server.server_port}/hook", taken


@contextmanager
def refusing() -> Iterator[str]:
    """The address of a server that answers 500 to every post."""

    class Refuses(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_error(500)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Refuses) as server, _served(server):
        yield f"http://127.0.0.1:{server.server_port}"


@contextmanager
def mails() -> Iterator[tuple[int, list[str]]]:
    """The port of a mail server on loopback, and the mails that it has taken, with their headers."""
    taken = list[str]()

    class Takes(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"220 here\r\n")
            while line := self.rfile.readline().decode().strip():
                word = line.split()[0].upper()
                if word == "DATA":
                    self.wfile.write(b"354 go on\r\n")
                    lines = iter(lambda: self.rfile.readline().decode().rstrip("\r\n"), ".")
                    taken.append("\n".join(lines))
                self.wfile.write(b"221 bye\r\n" if word == "QUIT" else b"250 ok\r\n")

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address, daemon_threads = True, True

    with Server(("127.0.0.1", 0), Takes) as server, _served(server):
        yield server.server_address[1], taken


@contextmanager
def _served(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
