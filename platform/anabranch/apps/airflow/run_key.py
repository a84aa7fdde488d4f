"""Derives the name of an Airflow run in the platform's folders and tables."""

from __future__ import annotations

import hashlib
import re


def run_key(run_id: str, cleared: int) -> str:
    """Returns a folder name for an Airflow run id, which may be any text that a caller of the API chose.

    ``cleared``: how often the run was cleared. A cleared run is planned again, which is another build.
    """
    readable = re.sub(r"[^A-Za-z0-9]+", "-", run_id).strip("-")[:48] or "run"
    digest = hashlib.sha256(f"{run_id}\0{cleared}".encode()).hexdigest()[:10]
    return f"{readable}-{digest}".lower()
