"""Writes a run's note: what was planned, and the outcome. For people only; no program reads it."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from anabranch.apps.airflow.note_markdown import as_markdown
from anabranch.change.estimates import Estimate, Outcome, step_costs
from anabranch.core.errors import AnabranchError
from anabranch.core.settings import Settings

log = logging.getLogger(__name__)
SHOWN = 6
"""Maximum number of partitions listed by name."""
_SHOWN_SECONDS = 0.05
"""From here on a cost per day or per million events is shown."""


def planned_note(plan: Mapping[str, Any]) -> str:
    said = plan.get("estimate")
    text = str(Estimate(**said)) if said else ""
    takes = f" {text[0].upper()}{text[1:]}." if text else ""
    missing = plan.get("late_missing")
    why = "" if missing is None else f" All days that were never published or lack late events ({missing:,} of them)."
    then = plan.get("downstream")
    starts = f" Then starts {', '.join(then)}." if then else ""
    return (
        f"Planned: {plan['span']} of {plan['view']} v{plan['version']} from {plan['events']:,} events "
        f"({_batch_only(plan)}) at {plan['cut']}.{why}{takes}{starts}"
    )


def _batch_only(plan: Mapping[str, Any]) -> str:
    return f"{plan['late']:,} late" + (f", {plan['loaded']:,} loaded" if plan.get("loaded") else "")


def outcome_note(plan: Mapping[str, Any], outcome: Mapping[str, Any], checks: str) -> str:
    """Says what was rebuilt, from how many events, at which cut, with which certificates, and what isn't published."""
    published, refused = outcome["published"], outcome["refused"]
    count = len(published) + len(refused)
    lines = [
        (
            f"Rebuilt {plan['span']} of {plan['view']} v{plan['version']}: {outcome['rows']:,} rows from "
            f"{plan['events']:,} events ({_batch_only(plan)}) at {plan['cut']}."
        ),
        f"Certificates: {outcome['equal']} of {count} equal at {outcome['certified_at']} (run {plan['run']}).",
        f"Late {'and loaded ' if plan.get('loaded') else ''}events changed {outcome['late_rows']:,} rows.",
        f"Published: {len(published)} of {count} partitions.",
    ]
    if refused:
        lines.append("NOT published: " + listed(refused))
    if steps := outcome.get("steps"):
        took = ", ".join(f"{step} {seconds:.1f} s" for step, seconds in steps.items())
        lines.append(f"Took {outcome['seconds']:.1f} s: {took}.{outcome['costs']}")
    lines.append(f"Checks: {checks}")  # a bracket behind it would become a part of the link in the log
    return "\n".join(lines)


def costs_text(outcomes: Sequence[Outcome]) -> str:
    """The fixed cost of each step, and its cost per day and per million events, by earlier runs; empty with too few."""
    parts = []
    for step, cost in step_costs(outcomes).items():
        each = ((cost.per_day, "a day"), (1e6 * cost.per_event, "a million events"))
        more = "".join(f" + {seconds:.1f} s {what}" for seconds, what in each if seconds >= _SHOWN_SECONDS)
        parts.append(f"{step} {cost.fixed:.1f} s{more}")
    return f" By {sum(1 for o in outcomes if o.steps)} runs: {', '.join(parts)}." if parts else ""


def days_listed(days: Collection[str]) -> str:
    """Lists the first few days."""
    more = len(days) - SHOWN
    return ", ".join(sorted(days)[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def listed(refused: Mapping[str, str]) -> str:
    """Lists the first few refused partitions with their reasons."""
    shown = [f"{day} ({reason})" for day, reason in sorted(refused.items())[:SHOWN]]
    more = len(refused) - len(shown)
    return "; ".join(shown) + (f"; and {more} more" if more > 0 else "")


def write_note(
    settings: Settings,
    address: str,
    dag_id: str,
    run_id: str,
    text: str,
    tasks: Mapping[str, str] = MappingProxyType({}),
) -> bool:
    """Sets the run's note, and those of ``tasks``, through the public REST API. Nothing depends on a note, so a failure
    is only logged."""
    from anabranch.apps.airflow.client import Client
    from anabranch.operate.runtime.secret_files import airflow_login

    try:
        with Client(address, airflow_login(settings), timeout=10.0) as client:
            client.write_note(dag_id, run_id, as_note(text))
            for task, note in tasks.items():
                client.write_note(dag_id, run_id, as_note(note), task)
    except (AnabranchError, OSError, KeyError, ValueError) as error:
        log.warning("the run's note was not written: %s", error)
        return False
    return True


def as_note(text: str) -> str:
    """Ends each line with a hard break of Markdown: Airflow renders notes, and would join the lines. What an error
    quotes of an event becomes no link, image or HTML.

    A run's page shows a note up to the end of its first line, and all of it with a click, as the list of runs does.
    """
    return "  \n".join(line.rstrip() for line in as_markdown(text).splitlines())
