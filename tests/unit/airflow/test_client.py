"""The client asks for another token when Airflow refuses the one that it has, and only then."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count

import pytest
from anabranch.apps.airflow.client import Client
from anabranch.core.errors import BrokenState

pytestmark = pytest.mark.unit
Refusal = tuple[int, str]


@pytest.fixture
def server() -> Iterator[Callable[[Refusal], tuple[str, list[str]]]]:
    """Gives out tokens by number, and refuses the first one: in Airflow's own words (``core_api/security.py``)."""
    running = list[ThreadingHTTPServer]()

    def start(refusal: Refusal) -> tuple[str, list[str]]:
        numbers, asked = count(1), list[str]()

        class Answers(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                self._answer(201, {"access_token": f"token-{next(numbers)}"})

            def do_GET(self) -> None:
                asked.append(self.headers["authorization"])
                first = asked[-1] == "Bearer token-1"
                self._answer(*((refusal[0], {"detail": refusal[1]}) if first else (200, {"found": True})))

            def _answer(self, status: int, content: object) -> None:
                text = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: object) -> None:
                pass

        made = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        running.append(made)
        threading.Thread(target=made.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{made.server_port}", asked

    yield start
    for each in running:
        each.shutdown()
        each.server_close()


@pytest.mark.parametrize(
    "refusal", [(401, "Token Expired"), (403, "Invalid JWT token")], ids=["it has run out", "the clock was set back"]
)
def test_a_token_that_is_refused_is_replaced(
    server: Callable[[Refusal], tuple[str, list[str]]], refusal: Refusal
) -> None:
    address, asked = server(refusal)
    with Client(address, ("anna", "secret")) as client:
        assert client.get("/dags") == {"found": True}
    assert asked == ["Bearer token-1", "Bearer token-2"]


def test_a_right_that_is_missing_is_said(server: Callable[[Refusal], tuple[str, list[str]]]) -> None:
    address, asked = server((403, "Forbidden"))
    with Client(address, ("anna", "secret")) as client, pytest.raises(BrokenState) as refused:
        client.get("/dags")
    assert refused.value.fields["status"] == 403
    assert len(asked) == 1
