"""Operators that wait for a person's approval before something large or irreversible is done."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.exceptions import HITLRejectException
from airflow.providers.standard.operators.hitl import ApprovalOperator

from anabranch.apps.airflow._reprocess_tasks import hitl_detail, tell
from anabranch.apps.airflow._retry_policy import NeedsFix
from anabranch.core.settings import load_settings

if TYPE_CHECKING:
    from airflow.sdk import Context

NO_BREAK = "\u00a0"
_FOLDED = re.compile(" {2,}|^ ")
"""Spaces that a browser would collapse or remove."""


class Approval(ApprovalOperator):
    """Shows ``question`` under "Required actions" and waits. The run's note says who answered what.

    If it is rejected, the following tasks are skipped.
    """

    template_fields: Sequence[str] = (*ApprovalOperator.template_fields, "planned")
    ui_color = "#f4dcc6"
    refused = "nothing was done"

    def __init__(self, *, planned: Any, **kwargs: Any) -> None:
        super().__init__(subject="", **kwargs)
        self.planned = planned

    def question(self) -> tuple[str, str]:
        """Returns the question in one line, and what a person should know to decide; plain text."""
        raise NotImplementedError

    def summary(self) -> str:
        """Returns what the approval is about, for the run's note."""
        raise NotImplementedError

    def execute(self, context: Context) -> Any:
        answer = self._earlier_answer(context)
        if answer is not None:
            return self.execute_complete(context, answer)
        self.subject, text = self.question()
        self.body = as_markdown(text)
        self._tell(context, f"{self.summary()} Waits for a person's approval, under Required actions.")
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        if "error" not in event:  # write the note first: a rejection raises, which skips the following tasks
            approved = self.APPROVE in event["chosen_options"]
            approved_note = f"Approved by {answered_by(event)}."
            refused = f"Rejected by {answered_by(event)}: {self.refused}."
            self._tell(context, f"{approved_note if approved else refused} {self.summary()}")
        try:
            return super().execute_complete(context, event)
        except HITLRejectException:
            by = answered_by(event)
            raise NeedsFix(
                f"rejected by {by}\n  state: {self.refused}\n  next:  trigger the run again", self.summary()
            ) from None

    def _earlier_answer(self, context: Context) -> dict[str, Any] | None:
        """Returns an answer that was given before this try began; None if there is none.

        If a person answers within a second of the question, the asking process is still running; Airflow treats that
        as a failure and retries, and asking again would delete the answer. A cleared task must ask again; clearing
        raises ``max_tries``.
        """
        ti = context["ti"]
        if ti.try_number == 1 or ti.max_tries > (self.retries or 0):
            return None
        run = context["dag_run"]
        found = hitl_detail(load_settings(), run.dag_id, run.run_id, self.task_id)
        if found is None or not found.get("response_received"):
            return None
        self.log.info("answered before this try began")
        names = ("chosen_options", "params_input", "responded_by_user")
        return {name: found[name] for name in names} | {"responded_at": datetime.fromisoformat(found["responded_at"])}

    def _tell(self, context: Context, text: str) -> None:
        tell(load_settings(), context["dag_run"], text)


class PlanApproval(Approval):
    """Asks if a plan reads more events than ``approval_events``; a smaller plan continues without a question.

    What the plan fixed (days, cut, definition) stays valid however long the answer takes. If something has changed so
    that the plan no longer applies, the step that detects it refuses.
    """

    refused = "nothing was rebuilt"

    def question(self) -> tuple[str, str]:
        plan = self.planned
        return (
            f"{plan['view']} v{plan['version']}: {plan['span']}, {plan['events']:,} events to read",
            f"More than {load_settings().approval_events:,} events need a person's approval.\n\n{plan['text']}",
        )

    def summary(self) -> str:
        from anabranch.apps.airflow._run_notes import planned_note

        return planned_note(self.planned)

    def execute(self, context: Context) -> Any:
        events, limit = self.planned["events"], load_settings().approval_events
        if events <= limit:
            self.log.info("%s events to read, at most %s need no approval", f"{events:,}", f"{limit:,}")
            return None
        return super().execute(context)


def as_markdown(text: str) -> str:
    """Formats plain text for the UI, which renders Markdown: each line is inline code with a hard break.

    The UI shows a fenced block without its line breaks and spaces. Backticks are replaced, so that no value from an
    event can end the inline code.
    """
    lines = (_FOLDED.sub(lambda found: NO_BREAK * len(found[0]), line.replace("`", "'")) for line in text.splitlines())
    return "\n".join(f"`{line}`  " if line.strip() else "" for line in lines)


def answered_by(answer: dict[str, Any]) -> str:
    """Returns the Airflow user name of the person who answered."""
    return str((answer.get("responded_by_user") or {}).get("name") or "?")
