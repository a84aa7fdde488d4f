"""Triggers an Airflow run for a command, and prints its progress."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from anabranch.core.errors import BadInput
from anabranch.core.text.terminal_text import printable

if TYPE_CHECKING:
    from anabranch.apps.airflow.client import Client, Run
    from anabranch.core.settings import Settings

_TIMEOUT_SECONDS = 6 * 3600


def carried_out(settings: Settings, dag: str, asked: Mapping[str, Any], *, wait: bool, approve: bool) -> None:
    """Triggers ``dag`` with these parameters, and prints its tasks' states until it ends. Exit code 1 if it failed.
    Raises BadInput PARAMETER if the approval is to be given and nobody waits for its request."""
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
        run = client.trigger(dag, asked)
        typer.echo(run.url)
        if wait:
            run = client.wait(run, _Progress(client, approve=approve), timeout=_TIMEOUT_SECONDS)
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

    def __call__(self, run: Run) -> None:
        from anabranch.apps.airflow.progress_notes import progress_of

        for task, state in run.tasks.items():
            if state and self._seen.get(task) != state:
                self._seen[task] = state
                waits = state == "awaiting_input"
                typer.echo(f"{task}: waits for a person's approval" if waits else f"{task}: {state.replace('_', ' ')}")
                if waits and self._approve:
                    self._client.respond(run, task, "Approve")
        progress = progress_of(run.note)
        if progress and progress != self._progress:
            typer.echo(f"  {printable(progress)}")
        self._progress = progress
