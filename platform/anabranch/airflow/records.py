"""How a run is named on disk, and the verdict that reconciliation leaves there for publish."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from anabranch.errors import BrokenState
from anabranch.settings import Settings


def run_key(run_id: str, cleared: int) -> str:
    """A name for folders from a run id of Airflow's, which may be any text that a caller of the API chose.

    ``cleared`` is how often the run was cleared: a run that is planned anew is another build.
    """
    readable = re.sub(r"[^A-Za-z0-9]+", "-", run_id).strip("-")[:48] or "run"
    digest = hashlib.sha256(f"{run_id}\0{cleared}".encode()).hexdigest()[:10]
    return f"{readable}-{digest}".lower()


def verdict_file(settings: Settings, view: str, version: int, run: str) -> Path:
    """Where reconciliation leaves its verdict on the build of ``run``: beside the build's manifest."""
    from anabranch.batch.manifest import manifest_path  # imports pyarrow: too slow for a DAG file

    return manifest_path(settings, view, version, run).with_suffix(".verdict.json")


def read_record(file: Path) -> dict[str, Any]:
    """The record of a step. BrokenState RECORD_MISSING when the step has not left one."""
    try:
        content = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise BrokenState(
            "RECORD_MISSING",
            f"{file.name} can't be read: {error}",
            state="nothing was published by this step",
            next_step="clear the run from its reconcile step on",
        ) from error
    if not isinstance(content, dict):
        raise BrokenState("RECORD_MISSING", f"{file.name} holds no record")
    return content
