"""Where the environment names a proxy, requests to this machine don't go through it, nor do passwords."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from anabranch.apps.airflow.client import Client
from anabranch.core.airflow_settings import on_this_machine
from anabranch.core.settings import Settings
from anabranch.operate.jobs._landed_events import AirflowAssets
from anabranch.operate.runtime._http_server import answers
from anabranch.operate.runtime.airflow_parts import _healthy
from anabranch.operate.runtime.environment import environment
from anabranch.operate.runtime.secret_files import airflow_login

pytestmark = pytest.mark.unit
ANSWER = {"scheduler": {"status": "healthy"}, "access_token": "a token", "assets": [], "dags": []}


@contextmanager
def serving(port: int, status: int) -> Iterator[list[str]]:
    """What is asked of a server that gives everybody this answer."""
    asked = list[str]()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            asked.append(self.requestline)
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = json.dumps(ANSWER).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = _answer  # noqa: N815 - names of the standard library

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield asked
        server.shutdown()


@pytest.fixture
def settings(tmp_path: Path, free_port: Callable[[], int]) -> Settings:
    port = free_port()
    return Settings(home=tmp_path, airflow_port=port, http_port=port)


@pytest.fixture
def proxied(settings: Settings, free_port: Callable[[], int], monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What the proxy is asked for; our own server answers beside it."""
    airflow_login(settings)
    port = free_port()
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{port}")
    with serving(port, 503) as asked, serving(settings.airflow_port, 200):
        yield asked


def test_what_is_on_this_machine_is_asked_directly(settings: Settings, proxied: list[str]) -> None:
    assert _healthy(settings, "scheduler", 1.0)
    assert answers(settings)
    assert AirflowAssets(settings).waited_for() == {}
    for host in ("127.0.0.1", "localhost"):
        with Client(f"http://{host}:{settings.airflow_port}", ("admin", "a secret")) as client:
            assert client.get("/dags") == ANSWER
    assert proxied == []


def test_what_is_on_this_machine_is_asked_directly_though_the_settings_name_it(
    settings: Settings, proxied: list[str]
) -> None:
    named = settings.model_copy(update={"airflow_url": f"http://127.0.0.1:{settings.airflow_port}"})
    assert AirflowAssets(named).waited_for() == {}
    assert proxied == []


@pytest.mark.parametrize(
    ("address", "here"),
    [
        ("http://127.0.0.1:18080", True),
        ("https://127.8.8.8/airflow", True),
        ("http://LOCALHOST:1", True),
        ("http://[::1]:18080", True),
        ("http://airflow.localhost", True),
        ("http://airflow.example:18080", False),
        ("http://10.0.0.1", False),
        ("http://127.0.0.1.example", False),
        ("http://localhost@10.0.0.1", False),
    ],
)
def test_it_is_known_which_addresses_are_on_this_machine(address: str, here: bool) -> None:
    assert on_this_machine(address) is here


def test_an_airflow_elsewhere_is_asked_as_the_environment_says(settings: Settings, proxied: list[str]) -> None:
    away = settings.model_copy(update={"airflow_url": "http://airflow.example"})
    with pytest.raises(OSError, match="503"):
        AirflowAssets(away).waited_for()
    assert proxied == ["POST http://airflow.example/auth/token HTTP/1.1"]


@pytest.mark.parametrize(
    ("name", "given", "passed_on"),
    [
        ("", "", "127.0.0.1,localhost"),
        ("no_proxy", "a.corp", "a.corp,127.0.0.1,localhost"),
        ("NO_PROXY", "a.corp, localhost", "a.corp, localhost,127.0.0.1"),
        ("no_proxy", "*", "*"),
    ],
)
def test_our_processes_are_told_what_needs_no_proxy(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, name: str, given: str, passed_on: str
) -> None:
    for each in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(each, raising=False)
    if name:
        monkeypatch.setenv(name, given)
    made = environment(settings)
    assert (made["no_proxy"], made["NO_PROXY"]) == (passed_on, passed_on)
    for each in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(each, made[each])
    assert urllib.request.proxy_bypass("127.0.0.1:18080")
    assert environment(settings)["no_proxy"] == passed_on
