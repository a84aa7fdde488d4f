"""The main programs of processes with a Spark engine.

``landing`` and ``speed`` run until they are stopped; the supervisor starts them. ``rebuild`` (and certify), ``replay``,
``certify`` (kappa views) and ``load`` do one unit of work; Airflow's tasks pass them to spark-submit. Each exits with
0, or with the exit code of its error (``core.errors.exit_code``) and the error's text on stderr. ``job_file`` returns
the file to run, ``is_former_copy`` knows those that aren't run any more (in ``_job_file``). ``_watch`` watches a job,
``_landed_events`` tells Airflow what has landed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if TYPE_CHECKING:
    from anabranch.operate.jobs._job_file import is_former_copy, job_file
    from anabranch.operate.jobs._landed_events import POSTED
else:
    __getattr__, __dir__ = lazy_exports(
        __name__, {"_job_file": ("is_former_copy", "job_file"), "_landed_events": ("POSTED",)}
    )

__all__ = ["POSTED", "certify", "is_former_copy", "job_file", "landing", "load", "rebuild", "replay", "speed"]
