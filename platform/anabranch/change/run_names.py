"""Derives the name of an Airflow run in the platform's folders and tables, and finds the run of such a name again."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from anabranch.core.control_file import ControlFile
from anabranch.core.settings import Settings
from anabranch.lake.layout import run_records

_KEY = re.compile("[a-z0-9-]{1,70}")


@dataclass(frozen=True, slots=True)
class AirflowRun:
    """A run as Airflow names it."""

    dag_id: str
    run_id: str


RUN: Final = ControlFile("record of a run in Airflow", AirflowRun)


def run_key(run_id: str, cleared: int) -> str:
    """Returns a folder name for an Airflow run id, which may be any text that a caller of the API chose.

    ``cleared``: how often the run was cleared. A cleared run is planned again, which is another build.
    """
    readable = re.sub(r"[^A-Za-z0-9]+", "-", run_id).strip("-")[:48] or "run"
    digest = hashlib.sha256(f"{run_id}\0{cleared}".encode()).hexdigest()[:10]
    return f"{readable}-{digest}".lower()


def record_run(settings: Settings, run: Any) -> str:
    """Returns the key of a DAG run, and records which run has it, so that pages can lead to it. Safe to repeat."""
    key = run_key(run.run_id, run.clear_number or 0)
    RUN.write(_record(settings, key), AirflowRun(run.dag_id, run.run_id))
    return key


def recorded_run(settings: Settings, key: str) -> AirflowRun | None:
    """Returns the run of this key; None if none was recorded."""
    if not _KEY.fullmatch(key):
        return None
    try:
        return RUN.read(_record(settings, key))
    except (OSError, ValueError):
        return None


def run_name(settings: Settings, key: str) -> str:
    """Returns what people call the run of this key: its id in Airflow and its DAG; the key if none was recorded."""
    found = recorded_run(settings, key)
    return f"{found.run_id} of {found.dag_id}" if found else key


def _record(settings: Settings, key: str) -> Path:
    return run_records(settings) / f"{key}.json"
