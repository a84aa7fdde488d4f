"""The one step of the maintenance inside Airflow."""

from __future__ import annotations

import os
from typing import Any

from anabranch.apps.airflow.reprocess_tasks import failing, tell
from anabranch.core.settings import load_settings

from airflow.sdk import get_current_context, task
from airflow.sdk.exceptions import AirflowFailException

_LOWEST = 19


@task
def maintain() -> dict[str, Any]:
    """Merge small files and take old ones away, at the lowest priority, and say so in the run's note. May be repeated.

    Fails, without a retry, when it failed at a table; all others were done then all the same.
    """
    from anabranch.operate.maintenance.runner import maintain as run_maintenance

    os.nice(_LOWEST)
    run, settings = get_current_context()["dag_run"], load_settings()
    with failing():
        done = run_maintenance(settings)
    tell(settings, run, str(done))
    if done.failed:
        raise AirflowFailException(f"something could not be maintained; the rest was done:\n{done}")
    return done.to_json()
