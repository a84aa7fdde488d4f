"""A small client of Airflow's public REST API.

``Client`` holds one login and logs in again when its token expires. All calls but ``post`` are safe to repeat, and
``trigger`` if the caller gives the run its id: then one whose answer was lost is repeated, and starts no second run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any
from urllib.parse import quote

import httpx

from anabranch.core.errors import AnabranchError, BadInput, BrokenState, Conflict, TryAgain

NOTE_LENGTH = 1000
"""The maximum length of a note in Airflow."""
FINISHED = frozenset({"success", "failed"})
FAILED = "Failed"
"""The first word of the note of a failed run."""
NOTE_SECONDS = 20.0
"""How long the note of a run may come after its end, if no process of its tasks was left to write it."""


@dataclass(frozen=True, slots=True)
class Run:
    """A DAG run at the time of the last request. ``tasks``: each task's state ("" before it is scheduled)."""

    dag_id: str
    run_id: str
    state: str
    url: str
    note: str = ""
    tasks: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def finished(self) -> bool:
        return self.state in FINISHED


def dag_paused(dag_id: str, page: str) -> Conflict:
    """The error DAG_PAUSED. ``page``: where it can be unpaused."""
    what = f"the DAG {dag_id} is paused: a run of it would wait until somebody unpauses it"
    then = f"unpause it with the switch at {page}, then try again"
    return Conflict("DAG_PAUSED", what, state="no run was created", next_step=then, dag=dag_id)


class Client:
    """One login at one Airflow. ``address``: for example ``http://127.0.0.1:18080``. Times are seconds."""

    def __init__(self, address: str, login: tuple[str, str], timeout: float = 30.0) -> None:
        self.address = address.rstrip("/")
        self._login = login
        # What is on this machine is never asked through a proxy: it would get the password.
        here = dict.fromkeys(("all://127.0.0.1", "all://localhost"))
        self._http = httpx.Client(base_url=self.address, timeout=timeout, mounts=here)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._http.close()

    def trigger(
        self, dag_id: str, conf: Mapping[str, Any], *, run_id: str | None = None, note: str = "", patience: float = 90.0
    ) -> Run:
        """Starts a run with these parameters. Waits up to ``patience`` seconds for a DAG that isn't parsed yet.

        Raises BadInput PARAMETERS_REFUSED if a parameter violates the form's rules, or Conflict DAG_PAUSED; no run was
        created. TryAgain: a run with an id may have been created, which ``state`` says.
        """
        if self._wait_for_dag(dag_id, patience).get("is_paused"):
            raise dag_paused(dag_id, f"{self.address}/dags/{path_part(dag_id)}")
        body = {"logical_date": None, "conf": dict(conf), "dag_run_id": run_id, "note": note or None}
        path = f"/dags/{path_part(dag_id)}/dagRuns"
        answer = self._send("POST", path, body) if run_id is None else self._send_keyed(path, body, dag_id, run_id)
        if answer.status_code == 409 and run_id is not None:
            return self._made(dag_id, run_id)
        if answer.status_code in (400, 422):
            raise BadInput(
                "PARAMETERS_REFUSED",
                f"Airflow refused the parameters of {dag_id}: {error_detail(answer)}",
                state="no run was created",
                next_step="correct the parameter that it names",
            )
        return self._made(dag_id, self._json(answer)["dag_run_id"])

    def _made(self, dag_id: str, run_id: str) -> Run:
        """The run that was created: without its tasks if a look at it fails, for who waits looks again."""
        try:
            return self.run(dag_id, run_id)
        except TryAgain:
            return Run(dag_id, run_id, "queued", self.url(dag_id, run_id))

    def run(self, dag_id: str, run_id: str) -> Run:
        """Returns the run's current state, with its tasks."""
        path = f"/dags/{path_part(dag_id)}/dagRuns/{path_part(run_id)}"
        found = self.get(path)
        tasks = self.task_instances(dag_id, run_id)
        return Run(
            dag_id, run_id, found["state"], self.url(dag_id, run_id), found.get("note") or "",
            {t["task_id"]: t["state"] or "" for t in sorted(tasks, key=lambda t: t["start_date"] or "~")},
        )  # fmt: skip

    def wait(
        self,
        run: Run,
        on_progress: Callable[[Run], None] = lambda _: None,
        timeout: float = 900.0,
        on_failure: Callable[[TryAgain], None] = lambda _: None,
    ) -> Run:
        """Polls every second until the run has ended and, if it failed, says why. A poll that fails with TryAgain goes
        to ``on_failure`` and is repeated: the run doesn't depend on it. Raises TryAgain RUN_UNFINISHED after
        ``timeout``; the run continues."""
        deadline, patience = time.monotonic() + timeout, NOTE_SECONDS
        failure: TryAgain | None = None
        while time.monotonic() < deadline:
            try:
                run, failure = self.run(run.dag_id, run.run_id), None
                on_progress(run)
            except TryAgain as error:
                failure = error
                on_failure(error)
                time.sleep(1.0)
                continue
            if run.finished and (run.state != "failed" or run.note.startswith(FAILED) or patience <= 0):
                return run
            patience -= run.finished
            time.sleep(1.0)
        if run.finished:
            return run
        raise TryAgain(
            "RUN_UNFINISHED",
            f"{run.run_id} has not ended after {timeout:.0f} s: {failure.what if failure else dict(run.tasks)}",
            state="the run continues",
            next_step=f"open {run.url}",
        )

    def task_instances(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """Returns the tasks of a run, with state, try and note."""
        path = f"/dags/{path_part(dag_id)}/dagRuns/{path_part(run_id)}/taskInstances"
        found: list[dict[str, Any]] = self.get(path)["task_instances"]
        return found

    def xcom(self, run: Run, task: str, key: str = "return_value") -> Any:
        """Returns an XCom value of a task; None if there is none."""
        path = f"/dags/{path_part(run.dag_id)}/dagRuns/{path_part(run.run_id)}/taskInstances/{path_part(task)}"
        answer = self._send("GET", f"{path}/xcomEntries/{path_part(key)}?deserialize=true")
        return None if answer.status_code == 404 else self._json(answer)["value"]

    def task_log(self, run: Run, task: str, attempt: int = 1) -> str:
        """Returns the log of one try of a task, one message per line, with exceptions."""
        path = f"/dags/{path_part(run.dag_id)}/dagRuns/{path_part(run.run_id)}/taskInstances/{path_part(task)}"
        content = self.get(f"{path}/logs/{attempt}?full_content=true")["content"]
        return "\n".join(_line(entry) for entry in content)

    def respond(self, run: Run, task: str, option: str) -> None:
        """Answers a task that waits for a person. Raises BrokenState AIRFLOW_REFUSED if it was already answered."""
        path = _hitl_path(run.dag_id, run.run_id, task)
        self._json(self._send("PATCH", path, {"chosen_options": [option], "params_input": {}}))

    def hitl_detail(self, dag_id: str, run_id: str, task: str) -> dict[str, Any]:
        """Returns a task's question to a person, and the answer."""
        found: dict[str, Any] = self.get(_hitl_path(dag_id, run_id, task))
        return found

    def write_note(self, dag_id: str, run_id: str, note: str, task: str = "") -> None:
        """Replaces the note of a run, or of one of its tasks. Longer text is truncated to Airflow's maximum."""
        text = note if len(note) <= NOTE_LENGTH else note[: NOTE_LENGTH - 4] + "\n..."
        of_task = f"/taskInstances/{path_part(task)}" if task else ""
        path = f"/dags/{path_part(dag_id)}/dagRuns/{path_part(run_id)}{of_task}?update_mask=note"
        self._json(self._send("PATCH", path, {"note": text}))

    def url(self, dag_id: str, run_id: str) -> str:
        """Returns the address of the run's page in the UI."""
        return f"{self.address}/dags/{path_part(dag_id)}/runs/{path_part(run_id)}"

    def get(self, path: str) -> Any:
        """Returns the JSON answer to a GET below ``/api/v2``."""
        return self._json(self._send("GET", path))

    def post(self, path: str, body: Any) -> Any:
        """Returns the JSON answer to a POST below ``/api/v2``. Not idempotent: a repeat may start something twice."""
        return self._json(self._send("POST", path, body))

    def authorisation(self) -> dict[str, str]:
        """Returns the header with which another HTTP client is authorised as this user."""
        if "authorization" not in self._http.headers:
            self._authorise()
        return {"authorization": self._http.headers["authorization"]}

    def _wait_for_dag(self, dag_id: str, patience: float) -> dict[str, Any]:
        """Waits for a DAG, and returns it: it appears a few seconds after the dag processor starts or its file
        changes."""
        deadline = time.monotonic() + patience
        while (answer := self._send("GET", f"/dags/{path_part(dag_id)}")).status_code == 404:
            if time.monotonic() >= deadline:
                errors = self.get("/importErrors")["import_errors"]
                why = "; ".join(e["stack_trace"].strip().splitlines()[-1] for e in errors)
                raise BrokenState(
                    "DAG_UNKNOWN",
                    f"Airflow has no DAG {dag_id!r} after {patience:.0f} s{': ' + why if why else ''}",
                    next_step="check anabranch status; anabranch views list says which views have no DAG, and why",
                )
            time.sleep(0.5)
        found: dict[str, Any] = self._json(answer)
        return found

    def _send_keyed(self, path: str, body: Any, dag_id: str, run_id: str) -> httpx.Response:
        """Creates a run that has an id. If the answer is lost, asks once more: 409 then says that it is there."""
        try:
            return self._answered("POST", path, body)
        except TryAgain:
            time.sleep(1.0)
        try:
            return self._answered("POST", path, body)
        except TryAgain as lost:
            lost.state = f"the run {run_id} of {dag_id} may have been created"
            lost.next_step = f"look at {self.url(dag_id, run_id)} before you start another one"
            raise

    def _answered(self, method: str, path: str, body: Any) -> httpx.Response:
        """An answer that says what was done. Raises TryAgain for an error of the server."""
        answer = self._send(method, path, body)
        if answer.status_code >= 500:
            self._json(answer)
        return answer

    def _send(self, method: str, path: str, body: Any = None) -> httpx.Response:
        try:
            if "authorization" not in self._http.headers:
                self._authorise()
            answer = self._http.request(method, "/api/v2" + path, json=body)
            if _token_refused(answer):
                self._authorise()
                answer = self._http.request(method, "/api/v2" + path, json=body)
        except httpx.TransportError as error:
            raise TryAgain(
                "AIRFLOW_UNREACHABLE",
                f"Airflow at {self.address} doesn't answer: {error}",
                next_step="anabranch status, anabranch up",
            ) from error
        return answer

    def _authorise(self) -> None:
        self._http.headers.pop("authorization", None)
        user, password = self._login
        answer = self._http.post("/auth/token", json={"username": user, "password": password})
        self._http.headers["authorization"] = f"Bearer {self._json(answer)['access_token']}"

    def _json(self, answer: httpx.Response) -> Any:
        if answer.is_success:
            return answer.json()
        kind: type[AnabranchError] = TryAgain if answer.status_code >= 500 else BrokenState
        raise kind(
            "AIRFLOW_REFUSED",
            f"Airflow answered {answer.status_code} to {answer.request.method} {answer.request.url.path}: "
            f"{error_detail(answer)}",
            next_step="read the api-server's log",
            status=answer.status_code,
        )


def _token_refused(answer: httpx.Response) -> bool:
    """Whether it was the token, not what was asked: it has run out, or was given out when the clock was ahead, and is
    not valid yet. A request that is refused so has done nothing."""
    return answer.status_code == 401 or (answer.status_code == 403 and "Invalid JWT token" in answer.text)


def _line(entry: Any) -> str:
    """Formats one log message of a task, with its exceptions."""
    if not isinstance(entry, dict):
        return str(entry)
    causes = (f"{cause.get('exc_type')}: {cause.get('exc_value')}" for cause in entry.get("error_detail") or ())
    return "\n".join((str(entry.get("event", entry)), *causes))


def _hitl_path(dag_id: str, run_id: str, task: str) -> str:
    run = f"/dags/{path_part(dag_id)}/dagRuns/{path_part(run_id)}"
    return f"{run}/taskInstances/{path_part(task)}/-1/hitlDetails"


def error_detail(answer: httpx.Response) -> str:
    """What Airflow says is wrong, in one line."""
    try:
        detail = answer.json().get("detail", answer.text)
    except (ValueError, AttributeError):
        detail = answer.text
    return str(detail).split("\n")[0][:500]


def path_part(name: str) -> str:
    """Quotes any name as one path segment. A name of dots only, like ``..``, would otherwise leave the path."""
    return quote(name, safe="").replace(".", "%2E") if not name.strip(".") else quote(name, safe="")
