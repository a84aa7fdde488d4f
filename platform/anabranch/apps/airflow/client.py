"""A small client of Airflow's public REST API: the one that commands, tasks and the pages use (ADR 5).

``Client`` holds one login and logs in again when its token expires. All calls but ``post`` are safe to repeat, and
``trigger`` if the caller gives the run its id: then one whose answer was lost is repeated, and starts no second run.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from anabranch.apps.airflow._rest_api import RestApi, content, dag_path, error_detail, path_part, run_path
from anabranch.apps.airflow.note_markdown import as_text
from anabranch.core.errors import BadInput, BrokenState, Conflict, TryAgain

NOTE_LENGTH = 1000
"""The maximum length of a note in Airflow."""
FINISHED = frozenset({"success", "failed"})
FAILED = "Failed"
"""The first word of the note of a failed run."""
NOTE_SECONDS = 20.0
"""How long the note of a run may come after its end, if no process of its tasks was left to write it."""
AHEAD_SECONDS = 60.0
"""A run dated later than Airflow's clock, by more than that, was requested before that clock was set back."""


@dataclass(frozen=True, slots=True)
class Run:
    """A DAG run at the time of the last request. ``tasks``: each task's state ("" before it is scheduled). ``ahead``:
    by how many seconds its date is later than Airflow's clock, which goes on with it then; 0 if it isn't."""

    dag_id: str
    run_id: str
    state: str
    url: str
    note: str = ""
    tasks: Mapping[str, str] = field(default_factory=dict, hash=False)
    ahead: float = 0.0

    @property
    def finished(self) -> bool:
        return self.state in FINISHED


class Client(RestApi):
    """One login at one Airflow. ``address``: for example ``http://127.0.0.1:18080``. Times are seconds."""

    def trigger(
        self, dag_id: str, conf: Mapping[str, Any], *, run_id: str | None = None, note: str = "", patience: float = 90.0
    ) -> Run:
        """Starts a run with these parameters. Waits up to ``patience`` seconds for a DAG that isn't parsed yet.

        Raises BadInput PARAMETERS_REFUSED if a parameter violates the form's rules, or Conflict DAG_PAUSED; no run was
        created. TryAgain: a run with an id may have been created, which ``state`` says.
        """
        return self._look(dag_id, self.create(dag_id, conf, run_id=run_id, note=note, patience=patience))

    def create(
        self, dag_id: str, conf: Mapping[str, Any], *, run_id: str | None = None, note: str = "", patience: float = 0.0
    ) -> str:
        """Starts a run as ``trigger`` does, without a look at it. Returns its id.

        Also if a run has this id and these parameters already. Conflict RUN_EXISTS: it has others, and none was made.
        """
        if self._wait_for_dag(dag_id, patience).get("is_paused"):
            raise Conflict(
                "DAG_PAUSED",
                f"the DAG {dag_id} is paused: a run of it would wait until somebody unpauses it",
                state="no run was created",
                next_step=f"unpause it with the switch at {self.address}{dag_path(dag_id)}, then try again",
                dag=dag_id,
            )
        body = {"logical_date": None, "conf": dict(conf), "dag_run_id": run_id, "note": note or None}
        path = f"{dag_path(dag_id)}/dagRuns"
        answer = self.send("POST", path, body) if run_id is None else self._send_keyed(path, body, dag_id, run_id)
        if answer.status_code == 409 and run_id is not None:
            self._check_same(dag_id, run_id, conf)
            return run_id
        if answer.status_code in (400, 422):
            raise BadInput(
                "PARAMETERS_REFUSED",
                f"Airflow refused the parameters of {dag_id}: {error_detail(answer)}",
                state="no run was created",
                next_step="correct what it names; the DAG's page in Airflow says whether it can be run",
            )
        return str(content(answer)["dag_run_id"])

    def _check_same(self, dag_id: str, run_id: str, conf: Mapping[str, Any]) -> None:
        try:
            there = self.get(run_path(dag_id, run_id)).get("conf") or {}
        except TryAgain as lost:
            self._maybe_created(lost, dag_id, run_id)
            raise
        if there == json.loads(json.dumps(dict(conf))):
            return
        given = ", ".join(f"{name}={value}" for name, value in there.items())
        raise Conflict(
            "RUN_EXISTS",
            f"this has started another run already: {run_id} of {dag_id} ({given})",
            state="no run was created",
            next_step=f"reload the page, or start it again; the other run is at {self.url(dag_id, run_id)}",
            dag=dag_id,
            run=run_id,
        )

    def _look(self, dag_id: str, run_id: str) -> Run:
        """The run that was created: without its tasks if a look at it fails, for who waits looks again."""
        try:
            return self.run(dag_id, run_id)
        except TryAgain:
            return Run(dag_id, run_id, "queued", self.url(dag_id, run_id))

    def run(self, dag_id: str, run_id: str) -> Run:
        """Returns the run's current state, with its tasks."""
        answer = self.send("GET", run_path(dag_id, run_id))
        found = content(answer)
        tasks = self.task_instances(dag_id, run_id)
        return Run(
            dag_id, run_id, found["state"], self.url(dag_id, run_id), as_text(found.get("note") or ""),
            {t["task_id"]: t["state"] or "" for t in sorted(tasks, key=lambda t: t["start_date"] or "~")},
            _ahead(found, answer),
        )  # fmt: skip

    def newest_runs(self, dag_id: str, count: int) -> list[dict[str, Any]]:
        """Returns a DAG's runs as Airflow describes them, at most ``count``, the newest first."""
        path = f"{dag_path(dag_id)}/dagRuns?order_by=-run_after&limit={count}"
        found: list[dict[str, Any]] = self.get(path)["dag_runs"]
        return found

    def wait(
        self,
        run: Run,
        on_progress: Callable[[Run], None] = lambda _: None,
        timeout: float = 900.0,
        on_failure: Callable[[TryAgain], None] = lambda _: None,
    ) -> Run:
        """Polls every second until the run has ended and, if it failed, says why. A poll that fails with TryAgain goes
        to ``on_failure`` and is repeated: the run doesn't depend on it. Raises TryAgain RUN_UNFINISHED after
        ``timeout``; the run continues. Raises Conflict RUN_DATED_AHEAD if it stands still until Airflow's clock is
        where it was when the run was requested."""
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
            if run.ahead and not run.finished:
                raise _dated_ahead(run)
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
        found: list[dict[str, Any]] = self.get(f"{run_path(dag_id, run_id)}/taskInstances")["task_instances"]
        return found

    def xcom(self, run: Run, task: str, key: str = "return_value") -> Any:
        """Returns an XCom value of a task; None if there is none."""
        path = run_path(run.dag_id, run.run_id, task)
        answer = self.send("GET", f"{path}/xcomEntries/{path_part(key)}?deserialize=true")
        return None if answer.status_code == 404 else content(answer)["value"]

    def task_log(self, run: Run, task: str, attempt: int = 1) -> str:
        """Returns the log of one try of a task, one message per line, with exceptions."""
        path = run_path(run.dag_id, run.run_id, task)
        entries = self.get(f"{path}/logs/{attempt}?full_content=true")["content"]
        return "\n".join(_line(entry) for entry in entries)

    def respond(self, run: Run, task: str, option: str) -> None:
        """Answers a task that waits for a person. Raises BrokenState AIRFLOW_REFUSED if it was already answered."""
        path = f"{run_path(run.dag_id, run.run_id, task)}/-1/hitlDetails"
        content(self.send("PATCH", path, {"chosen_options": [option], "params_input": {}}))

    def hitl_detail(self, dag_id: str, run_id: str, task: str) -> dict[str, Any]:
        """Returns a task's question to a person, and the answer."""
        found: dict[str, Any] = self.get(f"{run_path(dag_id, run_id, task)}/-1/hitlDetails")
        return found

    def write_note(self, dag_id: str, run_id: str, note: str, task: str = "") -> None:
        """Replaces the note of a run, or of one of its tasks. Longer text is truncated to Airflow's maximum."""
        text = note if len(note) <= NOTE_LENGTH else note[: NOTE_LENGTH - 4] + "\n..."
        content(self.send("PATCH", f"{run_path(dag_id, run_id, task)}?update_mask=note", {"note": text}))

    def url(self, dag_id: str, run_id: str) -> str:
        """Returns the address of the run's page in the UI."""
        return f"{self.address}{dag_path(dag_id)}/runs/{path_part(run_id)}"

    def _wait_for_dag(self, dag_id: str, patience: float) -> dict[str, Any]:
        """Waits for a DAG, and returns it: it appears a few seconds after the dag processor starts or its file
        changes."""
        deadline = time.monotonic() + patience
        while (answer := self.send("GET", dag_path(dag_id))).status_code == 404:
            if time.monotonic() >= deadline:
                why = "; ".join(self._import_errors())
                raise BrokenState(
                    "DAG_UNKNOWN",
                    f"Airflow has no DAG {dag_id!r} after {patience:.0f} s{': ' + why if why else ''}",
                    next_step="check anabranch status; anabranch views list says which views have no DAG, and why",
                )
            time.sleep(0.5)
        found: dict[str, Any] = content(answer)
        return found

    def _import_errors(self) -> list[str]:
        """The last line of each error in a DAG file; none if this user may not see them."""
        try:
            found = self.get("/importErrors")["import_errors"]
        except BrokenState:
            return []
        return [each["stack_trace"].strip().splitlines()[-1] for each in found]

    def _send_keyed(self, path: str, body: Any, dag_id: str, run_id: str) -> httpx.Response:
        """Creates a run that has an id. If the answer is lost, asks once more: 409 then says that it is there."""
        try:
            return self._answered("POST", path, body)
        except TryAgain:
            time.sleep(1.0)
        try:
            return self._answered("POST", path, body)
        except TryAgain as lost:
            self._maybe_created(lost, dag_id, run_id)
            raise

    def _maybe_created(self, lost: TryAgain, dag_id: str, run_id: str) -> None:
        lost.state = f"the run {run_id} of {dag_id} may have been created"
        lost.next_step = f"look at {self.url(dag_id, run_id)} before you start another one"

    def _answered(self, method: str, path: str, body: Any) -> httpx.Response:
        """An answer that says what was done. Raises TryAgain for an error of the server."""
        answer = self.send(method, path, body)
        if answer.status_code >= 500:
            content(answer)
        return answer


def _ahead(found: Mapping[str, Any], answer: httpx.Response) -> float:
    """``Run.ahead`` of a run as Airflow describes it."""
    dated, now = found.get("run_after"), answer.headers.get("date")
    if not dated or not now:
        return 0.0
    ahead = (datetime.fromisoformat(dated) - parsedate_to_datetime(now)).total_seconds()
    return ahead if ahead > AHEAD_SECONDS else 0.0


def _dated_ahead(run: Run) -> Conflict:
    return Conflict(
        "RUN_DATED_AHEAD",
        f"{run.run_id} stands still: Airflow's clock was set back after it was requested, and Airflow goes on with it "
        f"in {run.ahead:,.0f} s",
        state=f"the run is still there, its tasks: {dict(run.tasks)}",
        next_step=f"delete it in Airflow ({run.url}), then start it again; if it is a replay, cancel that in between: "
        "anabranch replay cancel VIEW",
        run=run.run_id,
        seconds=run.ahead,
    )


def _line(entry: Any) -> str:
    """Formats one log message of a task, with its exceptions."""
    if not isinstance(entry, dict):
        return str(entry)
    causes = (f"{cause.get('exc_type')}: {cause.get('exc_value')}" for cause in entry.get("error_detail") or ())
    return "\n".join((str(entry.get("event", entry)), *causes))
