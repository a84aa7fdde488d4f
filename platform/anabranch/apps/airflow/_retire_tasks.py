"""The tasks of a retirement: retire the version, get a person's approval, delete its tables."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

from airflow.sdk import get_current_context, task

from anabranch.apps.airflow._approval import Approval
from anabranch.apps.airflow._reprocess_tasks import NOTHING_STARTED, failing, tell
from anabranch.core.settings import load_settings
from anabranch.lake.layout import VersionRef

log = logging.getLogger(__name__)


@task
def retire() -> dict[str, Any]:
    """Retires the version. Fails without a retry while it has readers or readers request it. Safe to repeat."""
    from anabranch.change.migrate.migration_request import parse_retirement_request
    from anabranch.serve import retirement
    from anabranch.views.retired_versions import retired_versions

    context = get_current_context()
    run, settings = context["dag_run"], load_settings()
    with failing(NOTHING_STARTED):
        request = parse_retirement_request(context["params"])
        ref = VersionRef(settings, request.view, request.version)
        by, grace = f"run {run.run_id}", timedelta(seconds=request.grace_seconds)
        if request.version not in retired_versions(settings, request.view):
            retirement.retire(ref, by=by, why=request.why, grace=grace)
        size = retirement.size(ref)
    tell(settings, run, f"{ref} is retired; its tables hold {size / 1e6:,.1f} MB.")
    return {"view": request.view, "version": request.version, "size": size}


class DropApproval(Approval):
    """Asks before the tables are deleted, because they can then only be rebuilt from history."""

    refused = "it stays retired, and its tables are kept"

    def question(self) -> tuple[str, str]:
        view, version, size = (self.planned[name] for name in ("view", "version", "size"))
        text = (
            f"{view} v{version} is retired: it has no readers. Its tables hold {size / 1e6:,.1f} MB.\n"
            "Deleted tables can only be rebuilt from history; the certificates stay.\n"
            f"If you are not sure, reject: anabranch migrate drop {view} {version} deletes them later."
        )
        return f"Delete the tables of {view} v{version}?", text

    def summary(self) -> str:
        return f"{self.planned['view']} v{self.planned['version']} is retired."


@task
def drop(planned: dict[str, Any]) -> int:
    """Deletes the tables. Returns the bytes freed. Safe to repeat."""
    from anabranch.change.replay.control import drop_version

    run, settings = get_current_context()["dag_run"], load_settings()
    with failing():
        freed = drop_version(VersionRef(settings, planned["view"], planned["version"]), f"run {run.run_id}")
    tell(settings, run, f"{planned['view']} v{planned['version']} is retired and its tables are deleted.")
    return freed


def carry_out_retirement() -> None:
    """Wires the tasks retire, approve, drop."""
    planned: Any = retire()
    approved = DropApproval(task_id="approve", planned=planned)
    planned >> approved >> drop(planned)
