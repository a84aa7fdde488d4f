"""Triggers an Airflow run for a command, and prints its progress."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import typer

from anabranch.core.errors import BadInput, BrokenState, TryAgain
from anabranch.core.text.terminal_text import printable

if TYPE_CHECKING:
    from anabranch.apps.airflow.client import Client, Run
    from anabranch.core.settings import Settings

_TIMEOUT_SECONDS = 6 * 3600


def carried_out(settings: Settings, dag: str, asked: Mapping[str, Any], *, wait: bool, approve: bool) -> None:
    """Triggers ``dag`` with these parameters, and prints its tasks' states until it ends. Exit code 1 if it failed.
    Raises BadInput PARAMETER if the approval is to be given and the command doesn't wait for the run."""
    from anabranch.apps.airflow.client import Client
    from anabranch.core.airflow_settings import airflow_api
    from anabranch.operate.runtime.secret_files import airflow_login

    if approve and not wait:
        raise BadInput(
            "PARAMETER",
            "--approve answers the run's request for approval, which --no-wait doesn't wait for",
            state="nothing was started",
            next_step="leave one of them out; without --approve the request is answered in Airflow",
        )
    with Client(airflow_api(settings), airflow_login(settings)) as client:
        run = client.trigger(dag, asked, run_id=f"cli__{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{token_hex(4)}")
        typer.echo(run.url)
        if wait:
            progress = _Progress(client, approve=approve)
            run = client.wait(run, progress, timeout=_TIMEOUT_SECONDS, on_failure=progress.failed)
            typer.echo(printable(run.note))
    if run.state == "failed":
        raise typer.Exit(1)


class _Progress:
    """Prints each task's state when it changes, and how far the running one is. With ``approve``, answers the task that
    waits for a person."""

    def __init__(self, client: Client, *, approve: bool) -> None:
        self._client = client
        self._approve = approve
        self._seen: dict[str, str] = {}
        self._progress = ""
        self._failing = False

    def __call__(self, run: Run) -> None:
        from anabranch.apps.airflow.progress_notes import progress_of

        self._failing = False
        for task, state in run.tasks.items():
            if state and self._seen.get(task) != state:
                waits = state == "awaiting_input"
                if waits and self._approve:  # first: a request whose answer is lost isn't seen, and is answered again
                    self._respond(run, task)
                self._seen[task] = state
                typer.echo(f"{task}: waits for a person's approval" if waits else f"{task}: {state.replace('_', ' ')}")
        progress = progress_of(run.note)
        if progress and progress != self._progress:
            typer.echo(f"  {printable(progress)}")
        self._progress = progress

    def _respond(self, run: Run, task: str) -> None:
        """Gives the approval. 409: somebody has answered, or this command, and Airflow's reply was lost."""
        try:
            self._client.respond(run, task, "Approve")
        except BrokenState as refused:
            if refused.fields.get("status") != 409:
                raise

    def failed(self, failure: TryAgain) -> None:
        """Says that Airflow doesn't answer, once until it does, also if the reason changes."""
        if not self._failing:
            self._failing = True
            typer.echo(printable(f"{failure.what}; the run continues, and this command keeps waiting"), err=True)
