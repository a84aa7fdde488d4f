"""A person's word before something large or lasting is carried out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from anabranch.apps.airflow.reprocess_tasks import hitl_detail, tell
from anabranch.core.settings import load_settings

from airflow.providers.standard.operators.hitl import ApprovalOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

NO_BREAK = "\u00a0"
_FOLDED = re.compile(" {2,}|^ ")
"""Spaces that a browser would make one of, or none."""


class Approval(ApprovalOperator):
    """Shows ``question`` under "Required actions" and waits; the run's note says who answered what.

    A rejected one is over: the steps behind are skipped.
    """

    template_fields: Sequence[str] = (*ApprovalOperator.template_fields, "planned")
    ui_color = "#f4dcc6"
    refused = "nothing was done"

    def __init__(self, *, planned: Any, **kwargs: Any) -> None:
        super().__init__(subject="", **kwargs)
        self.planned = planned

    def question(self) -> tuple[str, str]:
        """What is asked, in a line, and what a person should know; plain text."""
        raise NotImplementedError

    def summary(self) -> str:
        """What it is about, for the run's note."""
        raise NotImplementedError

    def execute(self, context: Context) -> Any:
        answer = self._lost_answer(context)
        if answer is not None:
            return self.execute_complete(context, answer)
        self.subject, text = self.question()
        self.body = as_markdown(text)
        self._tell(context, f"{self.summary()} Waits for a person's approval, under Required actions.")
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        if "error" not in event:  # noted first: a rejection ends in an exception, which skips the steps behind
            approved = self.APPROVE in event["chosen_options"]
            said = f"Approved by {answered_by(event)}."
            refused = f"Rejected by {answered_by(event)}: {self.refused}."
            self._tell(context, f"{said if approved else refused} {self.summary()}")
        return super().execute_complete(context, event)

    def _lost_answer(self, context: Context) -> dict[str, Any] | None:
        """What was answered before this try began.

        An answer within a second of the question finds Airflow still busy with the process that has asked: it takes
        that for a failure and tries again, and asking again would delete the answer. Who clears the task wants to be
        asked anew; that raises ``max_tries``.
        """
        ti = context["ti"]
        if ti.try_number == 1 or ti.max_tries > (self.retries or 0):
            return None
        run = context["dag_run"]
        found = hitl_detail(load_settings(), run.dag_id, run.run_id, self.task_id)
        if not found.get("response_received"):
            return None
        self.log.info("answered before this try began")
        names = ("chosen_options", "params_input", "responded_by_user")
        return {name: found[name] for name in names} | {"responded_at": datetime.fromisoformat(found["responded_at"])}

    def _tell(self, context: Context, text: str) -> None:
        tell(load_settings(), context["dag_run"], text)


class PlanApproval(Approval):
    """Where a plan reads more events than ``approval_events`` allows; a smaller one goes on at once.

    What the plan fixed (days, cut, definition) holds however long the answer takes; what it can't be held to any more
    is refused by the step that finds out.
    """

    refused = "nothing was rebuilt"

    def question(self) -> tuple[str, str]:
        plan = self.planned
        return (
            f"{plan['view']} v{plan['version']}: {plan['span']}, {plan['events']:,} events to read",
            f"More than {load_settings().approval_events:,} events need a person's approval.\n\n{plan['text']}",
        )

    def summary(self) -> str:
        from anabranch.apps.airflow.run_notes import planned_note

        return planned_note(self.planned)

    def execute(self, context: Context) -> Any:
        events, limit = self.planned["events"], load_settings().approval_events
        if events <= limit:
            self.log.info("%s events to read, at most %s need no approval", f"{events:,}", f"{limit:,}")
            return None
        return super().execute(context)


def as_markdown(text: str) -> str:
    """Plain text for the UI, which reads Markdown: each line is a piece of code, with a hard break behind it.

    A fenced block is shown without its breaks and spaces, a comparison as one paragraph. Nothing that was in an event
    may end a piece.
    """
    lines = (_FOLDED.sub(lambda found: NO_BREAK * len(found[0]), line.replace("`", "'")) for line in text.splitlines())
    return "\n".join(f"`{line}`  " if line.strip() else "" for line in lines)


def answered_by(answer: dict[str, Any]) -> str:
    """Who gave an answer, by the name that Airflow has of them."""
    return str((answer.get("responded_by_user") or {}).get("name") or "?")
