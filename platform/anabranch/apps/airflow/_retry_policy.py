"""The retry policy of all DAGs: kills and outages are retried; errors that need a fix are not (``NeedsFix``)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import RetryDecision, RetryPolicy

from anabranch.core.errors import EXIT_NEEDS_FIX

if TYPE_CHECKING:
    from airflow.sdk import Context


class NeedsFix(SystemExit):
    """Ends a task as failed, without a retry, because a retry would fail in the same way.

    A SystemExit is the one error that Airflow logs without a traceback; ``FailurePolicy`` keeps it from being retried.
    ``details`` follow the text in the run's note.
    """

    def __init__(self, text: str, details: str = "") -> None:
        super().__init__(text)
        self.code = EXIT_NEEDS_FIX
        self.details = details


class FailurePolicy(RetryPolicy):
    """Fails a task at ``NeedsFix``, and notes why when a task fails for good.

    Airflow evaluates it in the task's process, before it reports the task's state. ``on_failure_callback`` is called
    after that: a client that waits for the end of the run would read the note too early.
    """

    def evaluate(
        self, exception: BaseException, try_number: int, max_tries: int, context: Context | None = None
    ) -> RetryDecision:
        from anabranch.apps.airflow._run_failure import note_failure

        needs_fix = isinstance(exception, NeedsFix)
        if context is not None and (needs_fix or try_number > max_tries):
            note_failure(context, exception)
        return RetryDecision.fail() if needs_fix else RetryDecision.default()


DEFAULT_ARGS: Final[Mapping[str, Any]] = MappingProxyType(
    {"owner": "anabranch", "retries": 3, "retry_delay": timedelta(seconds=10), "retry_policy": FailurePolicy()}
)
"""Default arguments of every DAG. Three retries, because a task of minutes may be killed more than once."""


def run_failed(context: Context) -> None:
    """The ``on_failure_callback`` of every DAG. Imports late, because DAG files are parsed every few seconds."""
    from anabranch.apps.airflow._run_failure import explain_failed_run

    explain_failed_run(context)
