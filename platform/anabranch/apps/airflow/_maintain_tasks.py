"""The task of the maintenance DAG."""

from __future__ import annotations

import os
from typing import Any

from airflow.sdk import get_current_context, task

from anabranch.apps.airflow._reprocess_tasks import failing, tell
from anabranch.apps.airflow._retry_policy import NeedsFix
from anabranch.core.settings import load_settings

_LOWEST = 19


@task
def maintain() -> dict[str, Any]:
    """Runs the maintenance at the lowest CPU priority, and writes its report to the run's note. Safe to repeat.

    Fails without a retry if a table failed; all others were still processed.
    """
    from anabranch.operate.maintenance import maintain as run_maintenance

    os.nice(_LOWEST)
    run, settings = get_current_context()["dag_run"], load_settings()
    with failing():
        done = run_maintenance(settings)
    if done.failed:
        raise NeedsFix("the maintenance of some tables failed; the others were done", str(done))
    tell(settings, run, str(done))
    return done.to_json()
