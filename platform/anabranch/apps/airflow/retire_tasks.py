"""The steps of a retirement inside Airflow: nobody gets the version any more; a person says when its tables go."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

from anabranch.apps.airflow.approval import Approval
from anabranch.apps.airflow.reprocess_tasks import failing, tell
from anabranch.core.settings import load_settings

from airflow.sdk import get_current_context, task

log = logging.getLogger(__name__)


@task
def retire() -> dict[str, Any]:
    """Retire the version. Fails at once, without a retry, while readers have it or name it. May be repeated."""
    from anabranch.change.migration_request import parse_retirement_request
    from anabranch.serve import retirement
    from anabranch.views.retired_versions import retired_versions

    context = get_current_context()
    run, settings = context["dag_run"], load_settings()
    with failing():
        wish = parse_retirement_request(context["params"])
        by, grace = f"run {run.run_id}", timedelta(seconds=wish.grace_seconds)
        if wish.version not in retired_versions(settings, wish.view):
            retirement.retire(settings, wish.view, wish.version, by=by, why=wish.why, grace=grace)
        size = retirement.size(settings, wish.view, wish.version)
    tell(settings, run, f"{wish.view} v{wish.version} is retired; its tables hold {size / 1e6:,.1f} MB.")
    return {"view": wish.view, "version": wish.version, "size": size}


class DropApproval(Approval):
    """What is deleted can only be made again from history, so a person says when."""

    refused = "its tables stay, retired"

    def question(self) -> tuple[str, str]:
        view, version, size = (self.planned[name] for name in ("view", "version", "size"))
        text = (
            f"{view} v{version} is retired: nobody reads it. Its tables hold {size / 1e6:,.1f} MB.\n"
            "What is deleted can only be made again from history; the certificates stay.\n"
            f"Not sure? Reject: anabranch migrate drop {view} {version} deletes them later."
        )
        return f"Delete the tables of {view} v{version}?", text

    def summary(self) -> str:
        return f"{self.planned['view']} v{self.planned['version']} is retired."


@task
def drop(planned: dict[str, Any]) -> int:
    """Delete the tables; the bytes that are free again. May be repeated."""
    from anabranch.serve import retirement

    run, settings = get_current_context()["dag_run"], load_settings()
    with failing():
        freed = retirement.drop(settings, planned["view"], planned["version"])
    tell(settings, run, f"{planned['view']} v{planned['version']} is retired and its tables are deleted.")
    return freed


def carry_out_retirement() -> None:
    """retire, approve, drop."""
    planned: Any = retire()
    approved = DropApproval(task_id="approve", planned=planned)
    planned >> approved >> drop(planned)
