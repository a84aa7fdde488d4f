"""The client asks for another token when Airflow refuses the one that it has, and only then; a wait and a trigger
outlive answers that get lost."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count

import httpx
import pytest
from anabranch.apps.airflow.client import Client, Run
from anabranch.core.errors import BrokenState, Conflict, TryAgain

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


class Api:
    """Answers of Airflow's API about one DAG, in turn: a status, or no answer at all (an exception). When the turns are
    over, its run has ended."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, paused: bool = False) -> None:
        self.paused, self.turns, self.sent = paused, list[int | Exception](), list[str | None]()
        self.conf: dict[str, object] | None = None
        self.run: dict[str, object] = {}
        self.client = Client("http://airflow.test", ("anna", "x"))
        http = httpx.Client(base_url=self.client.address, transport=httpx.MockTransport(self._answer))
        monkeypatch.setattr(self.client, "_http", http)
        monkeypatch.setattr("time.sleep", lambda _: None)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if path == "/auth/token":
            return httpx.Response(201, json={"access_token": "t"})
        if path.endswith("/dags/delays"):
            return httpx.Response(200, json={"dag_id": "delays", "is_paused": self.paused})
        if path.endswith("/taskInstances"):
            return httpx.Response(200, json={"task_instances": []})
        if request.method == "POST":
            self.sent.append(json.loads(request.content)["dag_run_id"])
        status = self.turns.pop(0) if self.turns else 200
        if isinstance(status, Exception):
            raise status
        run = {"dag_run_id": "cli__1", "state": "success", "note": "", "conf": self.conf} | self.run
        date = {"date": "Sat, 28 Nov 2026 09:00:00 GMT"}
        return httpx.Response(status, json=run if status < 300 else {"detail": "as said"}, headers=date)


RUN = Run("delays", "cli__1", "running", "")


def test_a_wait_outlives_answers_that_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """A restart of the API server, a time-out: the run itself goes on."""
    api, told = Api(monkeypatch), list[str]()
    api.turns += [500, httpx.ConnectError("refused"), httpx.ReadTimeout("late")]
    ended = api.client.wait(RUN, on_failure=lambda failure: told.append(failure.code))
    assert (ended.state, told) == ("success", ["AIRFLOW_REFUSED", "AIRFLOW_UNREACHABLE", "AIRFLOW_UNREACHABLE"])


def test_a_wait_for_nothing_says_what_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    api, now = Api(monkeypatch), count()
    api.turns += [503] * 99
    monkeypatch.setattr("time.monotonic", lambda: float(next(now)))
    with pytest.raises(TryAgain, match="503") as unfinished:
        api.client.wait(RUN, timeout=10)
    assert (unfinished.value.code, unfinished.value.state) == ("RUN_UNFINISHED", "the run continues")


@pytest.mark.parametrize("state", ["queued", "running"])
def test_a_run_of_the_future_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, state: str) -> None:
    api = Api(monkeypatch)
    api.run = {"state": state, "run_after": "2026-11-29T09:00:00.123Z"}
    with pytest.raises(Conflict, match="goes on with it in 86,400 s") as ahead:
        api.client.wait(RUN)
    assert ahead.value.code == "RUN_DATED_AHEAD"
    assert "http://airflow.test/dags/delays/runs/cli__1" in ahead.value.next_step
    api.run = {"state": "success", "run_after": "2026-11-29T09:00:00Z"}
    assert api.client.wait(RUN).state == "success"
    api.run = {"state": state, "run_after": "2026-11-28T09:00:30Z"}
    assert api.client.run("delays", "cli__1").ahead == 0, "two clocks of two machines"


def test_an_error_that_stays_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(monkeypatch)
    api.turns += [404]
    with pytest.raises(BrokenState):
        api.client.wait(RUN)


@pytest.mark.parametrize("lost", [500, httpx.ReadTimeout("late")], ids=["an error", "no answer"])
def test_a_trigger_whose_answer_is_lost_is_repeated_under_its_id(
    monkeypatch: pytest.MonkeyPatch, lost: int | Exception
) -> None:
    api = Api(monkeypatch)
    api.turns += [lost, 409]
    assert api.client.trigger("delays", {}, run_id="cli__1").run_id == "cli__1"
    assert api.sent == ["cli__1", "cli__1"]


def test_a_run_that_is_there_already_is_the_one_that_was_asked_for_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(monkeypatch)
    api.conf, api.turns = {"from": "2013-01-01", "steps": [1, 2]}, [409, 200, 409]
    assert api.client.create("delays", {"from": "2013-01-01", "steps": (1, 2)}, run_id="cli__1") == "cli__1"
    with pytest.raises(Conflict, match=r"cli__1 of delays \(from=2013-01-01, steps=\[1, 2\]\)") as other:
        api.client.create("delays", {"from": "2013-01-02", "steps": (1, 2)}, run_id="cli__1")
    assert (other.value.code, other.value.state) == ("RUN_EXISTS", "no run was created")
    assert "http://airflow.test/dags/delays/runs/cli__1" in other.value.next_step


def test_a_run_that_is_there_and_can_not_be_read_may_be_the_one(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(monkeypatch)
    api.turns += [409, 500]
    with pytest.raises(TryAgain) as lost:
        api.client.create("delays", {}, run_id="cli__1")
    assert lost.value.state == "the run cli__1 of delays may have been created"


def test_a_run_that_was_made_and_can_not_be_seen_yet_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(monkeypatch)
    api.turns += [200, 500]
    assert api.client.trigger("delays", {}) == Run("delays", "cli__1", "queued", api.client.url("delays", "cli__1"))


def test_a_trigger_that_stays_without_an_answer_says_which_run_it_may_have_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api = Api(monkeypatch)
    api.turns += [httpx.ReadTimeout("late"), httpx.ReadTimeout("late")]
    with pytest.raises(TryAgain) as lost:
        api.client.trigger("delays", {}, run_id="cli__1")
    assert "cli__1" in lost.value.state
    assert "http://airflow.test/dags/delays/runs/cli__1" in lost.value.next_step


def test_a_trigger_without_an_id_is_never_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would start a second run."""
    api = Api(monkeypatch)
    api.turns += [500]
    with pytest.raises(TryAgain):
        api.client.trigger("delays", {})
    assert api.sent == [None]


def test_a_paused_dag_gets_no_run_that_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(monkeypatch, paused=True)
    with pytest.raises(Conflict) as paused:
        api.client.trigger("delays", {}, run_id="cli__1")
    assert (paused.value.code, paused.value.state, api.sent) == ("DAG_PAUSED", "no run was created", [])
    assert "http://airflow.test/dags/delays" in paused.value.next_step
