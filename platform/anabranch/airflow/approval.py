"""A person's word before a large plan is carried out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import ApprovalOperator

from anabranch.airflow.steps import address
from anabranch.settings import load_settings

if TYPE_CHECKING:
    from airflow.sdk import Context


class Approval(ApprovalOperator):
    """Shows the plan under "Required actions" and waits, where it reads more events than ``approval_events`` allows.

    A smaller plan goes on at once. A rejected one is over: the steps behind are skipped, and nothing was written. What
    the plan fixed (days, cut, definition) holds however long the answer takes; what it can't be held to any more is
    refused by the step that finds out.
    """

    template_fields: Sequence[str] = (*ApprovalOperator.template_fields, "planned")
    ui_color = "#f4dcc6"

    def __init__(self, *, planned: Any, **kwargs: Any) -> None:
        super().__init__(subject="", **kwargs)
        self.planned = planned

    def execute(self, context: Context) -> Any:
        from anabranch.airflow.notes import planned_note

        plan, limit = self.planned, load_settings().approval_events
        if plan["events"] <= limit:
            self.log.info("%s events to read, at most %s need no approval", f"{plan['events']:,}", f"{limit:,}")
            return None
        self.subject = f"{plan['view']} v{plan['version']}: {plan['span']}, {plan['events']:,} events to read"
        self.body = f"More than {limit:,} events need a person's approval.\n\n```\n{plan['text']}\n```"
        self._note(context, f"{planned_note(plan)} Waits for a person's approval, under Required actions.")
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        from anabranch.airflow.notes import planned_note

        if "error" not in event:  # noted first: a rejection ends in an exception, which skips the steps behind
            who = (event["responded_by_user"] or {}).get("name", "?")
            approved = self.APPROVE in event["chosen_options"]
            said = f"Approved by {who}." if approved else f"Rejected by {who}: nothing was rebuilt."
            self._note(context, f"{said} {planned_note(self.planned)}")
        return super().execute_complete(context, event)

    def _note(self, context: Context, text: str) -> None:
        from anabranch.airflow.notes import write_note

        run = context["dag_run"]
        write_note(load_settings(), address(), run.dag_id, run.run_id, text)
