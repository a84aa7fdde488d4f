"""The tasks of the DAG ``load``: check the form, load the files, say what has landed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import get_current_context, task

from anabranch.apps.airflow._reprocess_tasks import NOTHING_STARTED, failing, tell
from anabranch.apps.airflow._retry_policy import NeedsFix
from anabranch.apps.airflow._spark_job import SparkJob
from anabranch.core.errors import BadInput
from anabranch.core.settings import Settings, load_settings
from anabranch.core.text.quantities import counted

if TYPE_CHECKING:
    from airflow.sdk import Context


@task(multiple_outputs=True)
def plan_load() -> dict[str, Any]:
    """Checks the form, and finds the files. Writes only the run's note. Fails without a retry on a wrong parameter."""
    from anabranch.contracts import load_declarations
    from anabranch.ingest.files import Patience, check_loadable, find_files

    context = get_current_context()
    run, params, settings = context["dag_run"], context["params"], load_settings()
    with failing(NOTHING_STARTED):
        topic = load_declarations(settings.contracts_folder).topic(str(params["topic"]))
        check_loadable(topic)
        named = allowed(settings, params["files"])
        found = find_files(named, Patience(settings, topic.name, partial(tell, settings, run)))
    report = settings.home / "control" / "loads" / f".{topic.name}-{run.run_id.replace('/', '_')}.report"
    tell(
        settings,
        run,
        f"Planned: load {counted(len(found), 'file')} into {topic.name}: {', '.join(a.name for a in found[:6])}",
    )
    return {"topic": topic.name, "files": json.dumps(named), "report": str(report)}


def allowed(settings: Settings, named: Any) -> list[str]:
    """The files as the job gets them. Raises BadInput LOAD_FILES for a local one that isn't below the load folder:
    a user who may start a DAG must not read all that the platform can."""
    if not isinstance(named, list) or not named or not all(isinstance(each, str) and each for each in named):
        raise _refused("files: give at least one file, folder or S3 address")
    base, found = settings.load_folder.resolve(), list[str]()
    for each in named:
        if each.startswith("s3://"):
            found.append(each)
            continue
        path = (base / each).resolve()
        if not path.is_relative_to(base):
            raise _refused(f"files: {each!a} isn't below {base}")
        found.append(str(path))
    return found


def _refused(what: str) -> BadInput:
    return BadInput(
        "LOAD_FILES",
        what,
        state="nothing was loaded",
        next_step="name files below ANABRANCH_LOAD_FOLDER, or s3://bucket/prefix; others by anabranch load",
        field="files",
    )


class LoadJob(SparkJob):
    """Loads the files of a plan. A retry loads what hasn't landed."""

    keyed: Sequence[str] = ("topic", "files", "report")
    operator_extra_links = ()

    def _noted(self, settings: Settings, context: Context) -> AbstractContextManager[None]:
        return nullcontext()


@task
def outcome(planned: dict[str, Any]) -> dict[str, Any]:
    """Writes what has landed, by decision, and each kind of problem to the run's note. Fails if a file was refused."""
    from anabranch.ingest.files import REPORT

    run, settings = get_current_context()["dag_run"], load_settings()
    stored = REPORT.read(Path(planned["report"]))
    if stored is None:
        raise NeedsFix("the report of the load is gone\n  next:  start it again: what has landed is skipped")
    report = dict(stored.report)
    tell(settings, run, outcome_note(report))
    if errors := [file["error"] for file in report["files"] if file["error"]]:
        raise NeedsFix(
            f"{len(errors)} of {counted(len(report['files']), 'file')} can't be read: {'; '.join(errors[:5])}\n"
            "  state: nothing of them has landed\n"
            "  next:  correct them, and start it again: what has landed is skipped",
            outcome_note(report),
        )
    return report


def outcome_note(report: dict[str, Any]) -> str:
    """The outcome in some lines."""
    counts = ", ".join(f"{report[name]:,} {name}" for name in ("loaded", "quarantined", "duplicate"))
    skipped, refused = sum(f["skipped"] for f in report["files"]), [f["error"] for f in report["files"] if f["error"]]
    landed, files = counted(report["landed"], "row"), counted(len(report["files"]), "file")
    text = [f"{report['topic']}: landed {landed} of {files}: {counts}."]
    text += [f"{counted(skipped, 'file')} had landed before."] if skipped else []
    text += [f"{counted(count, 'row')}: {problem}" for problem, count in report["problems"].items()]
    text += [f"Not loaded: {error}" for error in refused]
    return "\n".join(text)


def carry_out_load() -> None:
    """Wires the tasks of a load."""
    planned: Any = plan_load()
    job = LoadJob(task_id="load", planned=planned)
    planned >> job >> outcome(planned)
