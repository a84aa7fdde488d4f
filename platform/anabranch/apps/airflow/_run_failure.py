"""Says why a run failed, as the note of the run and of its task, and calls the notifiers of the settings.

A task that raises notes it itself (``note_failure``). A task whose process is killed can't: when its run has failed,
the DAG processor calls ``explain_failed_run``, which notes each failed task that hasn't noted its last try.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from anabranch.apps.airflow._retry_policy import NeedsFix
from anabranch.apps.airflow._run_notes import write_note
from anabranch.apps.airflow.client import FAILED, Client
from anabranch.core.errors import AnabranchError, root_cause
from anabranch.core.settings import Settings, load_settings

if TYPE_CHECKING:
    from airflow.sdk import Context

log = logging.getLogger(__name__)
_NAMED = ("  state:", "  next:")
"""How lines of an error's text begin that follow its first one."""
_REPEAT = "read its log, then clear it: each step is safe to repeat, and the run goes on from there"
_KEPT = "a step commits all of its work or nothing; readers have what was published before, or all of it"
_ENDED_BY_AIRFLOW = {
    "timed_out": "the run took longer than Airflow allows",
    "all_tasks_deadlocked": "none of the run's tasks can start",
}
"""What Airflow calls a run that failed without a failed task."""


def note_failure(context: Context, error: BaseException) -> None:
    """Notes why this task failed for good, on its run and on the task. Called in the task's process."""
    from anabranch.apps.airflow._reprocess_tasks import api_address

    ti, run, settings = context["ti"], context["dag_run"], load_settings()
    text = failure_text(ti.task_id, error)
    log.error("%s", text)
    note = f"{text}\n{getattr(error, 'details', '')}".rstrip()
    task_notes = {ti.task_id: _of_try(text, ti.try_number)}
    write_note(settings, api_address(settings), run.dag_id, run.run_id, note, task_notes)


def failure_text(task: str, error: BaseException) -> str:
    """Returns what failed, the state and the next step, on a line each."""
    text, name = str(error), type(error).__name__
    ours = isinstance(error, AnabranchError | NeedsFix)
    if not ours and name != "AirflowException":  # that one has the text of a Spark job
        text = root_cause(error) if root_cause(error).startswith(name) else f"{name}: {root_cause(error)}"
    what, *more = text.splitlines() or [name]
    named = dict(line.strip().split(":", 1) for line in more if line.startswith(_NAMED))
    others = [line.strip() for line in more if not line.startswith(_NAMED)]
    if not ours and not named:
        named = {"state": _KEPT, "next": _REPEAT}
    return _three_lines(task, "\n".join([what, *others]), named.get("state", ""), named.get("next", ""))


def lost_text(task: str, try_number: int, tries: int) -> str:
    """Returns the text for a task that failed and noted nothing."""
    what = f"its process was killed, or ended without a word, in try {try_number} of {tries}"
    return _three_lines(
        task, what, _KEPT, f"{_REPEAT}. Killed again: dmesg says whether the machine has no memory left"
    )


def _three_lines(task: str, what: str, state: str, next_step: str) -> str:
    lines = {f"{FAILED} in {task}": what, "State": state.strip(), "Next": next_step.strip()}
    return "\n".join(f"{name}: {text}" for name, text in lines.items() if text)


def _of_try(text: str, number: int) -> str:
    return f"{text}\n{_mark(number)}"


def _mark(number: int) -> str:
    """The end of a task's note. A task that was cleared keeps its note, which is about an earlier try."""
    return f"(try {number})"


def explain_failed_run(context: Context) -> None:
    """Notes what no task could note, and calls the notifiers. Called in the DAG processor when a run has failed, also
    when no process of its tasks is left."""
    from anabranch.apps.airflow._reprocess_tasks import api_address
    from anabranch.apps.airflow.notifiers import notify
    from anabranch.operate.runtime.secret_files import airflow_login

    dag_id, run_id, settings = context["dag"].dag_id, context["run_id"], load_settings()
    note = ""
    try:
        with Client(api_address(settings), airflow_login(settings)) as client:
            _note_lost_tasks(settings, client, dag_id, run_id, str(context.get("reason") or ""))
            note = client.run(dag_id, run_id).note
    except (AnabranchError, OSError, KeyError, ValueError) as error:
        log.warning("why %s %s failed was not noted: %s", dag_id, run_id, error)
    notify(settings, context, note)


def _note_lost_tasks(settings: Settings, client: Client, dag_id: str, run_id: str, reason: str) -> None:
    failed = [task for task in client.task_instances(dag_id, run_id) if task["state"] == "failed"]
    lost = {task["task_id"]: task for task in failed if _mark(task["try_number"]) not in (task["note"] or "")}
    texts = {name: lost_text(name, task["try_number"], task["max_tries"] + 1) for name, task in lost.items()}
    if not failed:
        why = _ENDED_BY_AIRFLOW.get(reason, f"Airflow ended the run ({reason or 'no reason is given'})")
        texts = {"": f"{FAILED}: {why}\nState: {_KEPT}\nNext: look at its tasks, then clear those that have not run"}
    if texts:
        task_notes = {name: _of_try(text, lost[name]["try_number"]) for name, text in texts.items() if name}
        write_note(settings, client.address, dag_id, run_id, "\n".join(texts.values()), task_notes)
