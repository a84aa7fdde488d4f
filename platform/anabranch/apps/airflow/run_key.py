"""How a run of Airflow's is named in the platform's folders and tables."""

from __future__ import annotations

import hashlib
import re


def run_key(run_id: str, cleared: int) -> str:
    """A name for folders from a run id of Airflow's, which may be any text that a caller of the API chose.

    ``cleared`` is how often the run was cleared: a run that is planned anew is another build.
    """
    readable = re.sub(r"[^A-Za-z0-9]+", "-", run_id).strip("-")[:48] or "run"
    digest = hashlib.sha256(f"{run_id}\0{cleared}".encode()).hexdigest()[:10]
    return f"{readable}-{digest}".lower()
