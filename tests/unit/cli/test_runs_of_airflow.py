"""``anabranch reprocess`` against a server that answers as Airflow's REST API does: a DAG that is paused, a server that
is started again while the command waits, and a proxy in the environment."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest
from anabranch.apps.airflow import client
from anabranch.apps.cli import _change_commands
from anabranch.apps.cli.main import app
from anabranch.core.settings import Settings
from support.page_data import VIEW, declare
from typer.testing import CliRunner

pytestmark = pytest.mark.unit
DAY = "2013-01-01"
DAG = f"reprocess_{VIEW}"
RESTART = 3
"""After so many looks at its run the server ends, and another one begins."""


class Airflow:
    """Answers about one DAG. Each start of it gives out tokens of its own, and refuses those of the one before."""

    def __init__(self, port: int) -> None:
        self.address, self.paused, self.started = ("127.0.0.1", port), False, 0
        self.runs, self.looks, self.restarts = list[str](), 0, False
        self._server: ThreadingHTTPServer | None = None

    def start(self) -> None:
        self.started += 1
        self._server = ThreadingHTTPServer(self.address, self._handler(f"Bearer {self.started}"))
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def _restart(self) -> None:
        self.stop()
        time.sleep(0.5)
        self.start()

    def answer(self, method: str, path: str, body: dict[str, object]) -> tuple[int, object]:
        if path == f"/api/v2/dags/{DAG}":
            return 200, {"dag_id": DAG, "is_paused": self.paused}
        if path.endswith("/taskInstances"):
            return 200, {"task_instances": [{"task_id": "rebuild", "state": self._state, "start_date": None}]}
        if method == "POST":
            self.runs.append(str(body["dag_run_id"]))
            return 200, {"dag_run_id": self.runs[-1]}
        self.looks += 1
        if self.restarts and self.looks == RESTART:
            threading.Thread(target=self._restart, daemon=True).start()
        return 200, {"dag_run_id": self.runs[-1], "state": self._state, "note": "Rebuilt 1 day"}

    @property
    def _state(self) -> str:
        return "running" if self.restarts and self.started == 1 else "success"

    def _handler(self, token: str) -> type[BaseHTTPRequestHandler]:
        airflow = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                status: int
                content: object
                if self.path == "/auth/token":
                    status, content = 201, {"access_token": token.removeprefix("Bearer ")}
                elif self.headers.get("authorization") != token:
                    status, content = 401, {"detail": "Invalid JWT token"}
                else:
                    status, content = airflow.answer(self.command, self.path, json.loads(body or b"{}"))
                text = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = _answer  # noqa: N815 - names of the standard library

            def log_message(self, *_: object) -> None: ...

        return Handler


@pytest.fixture
def airflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_port: Callable[[], int]) -> Iterator[Airflow]:
    settings = Settings(home=tmp_path / "home", project=tmp_path, airflow_port=free_port())
    declare(settings)
    plan = SimpleNamespace(view=VIEW, version=1, partitions=[DAY], to_text=lambda: "one day")
    monkeypatch.setattr(_change_commands, "_planned", lambda *_: (settings, plan))
    nap = time.sleep
    quick = SimpleNamespace(monotonic=time.monotonic, sleep=lambda seconds: nap(seconds / 10))
    monkeypatch.setattr(client, "time", quick)
    airflow = Airflow(settings.airflow_port)
    airflow.start()
    yield airflow
    airflow.stop()


def test_a_paused_dag_gets_no_run_that_waits_for_ever(airflow: Airflow) -> None:
    airflow.paused = True
    told = CliRunner().invoke(app, ["reprocess", VIEW, "--from", DAY])
    assert (told.exit_code, airflow.runs) == (1, [])
    assert f"the DAG {DAG} is paused" in told.stderr
    assert "DAG_PAUSED" in told.stderr
    assert "no run was created" in told.stderr
    assert f"http://127.0.0.1:{airflow.address[1]}/dags/{DAG}" in told.stderr.replace("\n", "")


def test_a_wait_outlives_a_server_that_is_started_again(airflow: Airflow) -> None:
    airflow.restarts = True
    told = CliRunner().invoke(app, ["reprocess", VIEW, "--from", DAY])
    assert (told.exit_code, airflow.started, len(airflow.runs)) == (0, 2, 1), told.output
    assert re.findall(r"rebuild: \w+", told.stdout) == ["rebuild: running", "rebuild: success"]
    assert told.stdout.endswith("Rebuilt 1 day\n")
    assert told.stderr.count("doesn't answer") == 1, "the first connections are reset, the next ones refused"
    assert "the run continues, and this command keeps waiting" in told.stderr


def test_nothing_of_it_goes_through_a_proxy(
    airflow: Airflow, monkeypatch: pytest.MonkeyPatch, free_port: Callable[[], int]
) -> None:
    asked = list[str]()

    class Proxy(BaseHTTPRequestHandler):
        def _refuse(self) -> None:
            asked.append(self.requestline)
            self.send_error(503)

        do_GET = do_POST = do_CONNECT = _refuse  # noqa: N815 - names of the standard library

        def log_message(self, *_: object) -> None: ...

    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with ThreadingHTTPServer(("127.0.0.1", free_port()), Proxy) as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.server_port}")
        threading.Thread(target=proxy.serve_forever, args=(0.01,), daemon=True).start()
        told = CliRunner().invoke(app, ["reprocess", VIEW, "--from", DAY])
        proxy.shutdown()
    assert (told.exit_code, len(airflow.runs), asked) == (0, 1, []), told.output
