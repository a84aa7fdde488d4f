"""Operators for Spark work: submit a program of ``operate.jobs`` with the platform's engine settings."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowException

from anabranch.apps.airflow._approval import PlanApproval
from anabranch.apps.airflow._assets import view_assets
from anabranch.apps.airflow._reprocess_tasks import failing, publish, tell
from anabranch.apps.airflow._retry_policy import NeedsFix
from anabranch.apps.airflow.links import CertificatesLink, ChecksLink, ReplaysLink
from anabranch.apps.airflow.progress_notes import noted
from anabranch.core.atomic_files import write_atomically
from anabranch.core.engine.die_with_parent import mark_as_owner
from anabranch.core.engine.java_options import short_engine
from anabranch.core.engine.job_error import expect_error, recorded_error
from anabranch.core.engine.lifetime import OUT_OF_MEMORY, out_of_memory
from anabranch.core.engine.spark import engine_conf, hold_scratch, is_few, scratch_conf
from anabranch.core.errors import EXIT_NEEDS_FIX
from anabranch.core.settings import Settings, load_settings
from anabranch.ingest.landing.epoch_pacing import run_first
from anabranch.operate.jobs import job_file

if TYPE_CHECKING:
    from airflow.sdk import BaseOperatorLink, Context

LONGEST = timedelta(hours=12)
"""Most of a job's work is lost when its time is over: a rebuild writes its manifest at its end."""
_EXIT_CODE = re.compile(r"Error code is: (-?\d+)\.")


class SparkJob(SparkSubmitOperator):
    """Submits the job ``task_id`` with ``--view V --version N --run ID``, and a flag for each entry of the plan that is
    named in ``options`` and isn't None. The job writes its result to a record that the next task reads.

    A retry submits the job again. The job is keyed by ``--run``, so a second try repeats or completes the first. Errors
    that need a fix are not retried. The job is killed when the task or its worker ends. Nothing is read from this
    machine before the task runs, so parsing the DAG needs neither JARs nor settings. Values are passed as separate
    arguments, never through a shell.
    """

    template_fields: Sequence[str] = (*SparkSubmitOperator.template_fields, "planned")
    operator_extra_links: Sequence[BaseOperatorLink] = (ReplaysLink(),)
    ui_color = "#f4dcc6"
    keyed: Sequence[str] = ("view", "version", "run")
    """The entries of every plan for this job."""
    goes_first = True
    """Whether landing yields to it (ADR 0030): a person waits for it."""
    ends_soon = True
    """Whether it ends within a minute or so, if its plan has few ``events``."""

    def __init__(self, *, planned: Any, options: Sequence[str] = (), **kwargs: Any) -> None:
        kwargs.setdefault("execution_timeout", LONGEST)
        kwargs.setdefault("max_active_tis_per_dag", 1)
        super().__init__(conn_id="spark_default", name=f"anabranch-{kwargs['task_id']}", **kwargs)
        self.planned = planned
        self.options = tuple(options)

    def execute(self, context: Context) -> None:
        settings = load_settings()
        plan: dict[str, Any] = self.planned
        flags = {name: plan[name] for name in (*self.keyed, *self.options)}
        self.application = str(job_file(settings, self.task_id))
        given = {name: str(value) for name, value in flags.items() if value is not None}
        self.application_args = [text for name, value in given.items() for text in (f"--{name}", value)]
        self.properties_file = str(engine_properties(settings, few=self.ends_soon and is_few(plan.get("events"))))
        error_file = hold_scratch(settings) / "job-error.txt"
        expect_error(error_file)
        self.conf = {**(self.conf or {}), **scratch_conf(settings)}
        mark_as_owner()
        try:
            with run_first(settings) if self.goes_first else nullcontext(), self._noted(settings, context):
                super().execute(context)
        except AirflowException as error:
            raise self._failure(settings, error, recorded_error(error_file)) from None

    def _noted(self, settings: Settings, context: Context) -> AbstractContextManager[None]:
        """Shows the job's progress in the run's note."""
        from anabranch.change.run_progress import progress_text
        from anabranch.lake.layout import VersionRef

        plan: dict[str, Any] = self.planned
        work = partial(progress_text, VersionRef(settings, plan["view"], plan["version"]), plan["run"])
        run = context.get("dag_run")
        return noted(plan, work, partial(tell, settings, run)) if run is not None else nullcontext()

    def _failure(self, settings: Settings, error: AirflowException, said: str) -> BaseException:
        """Returns the error of this task. Airflow's own has the whole command, and nothing of what the job said."""
        found = _EXIT_CODE.search(str(error))
        code = int(found[1]) if found else None
        if code == EXIT_NEEDS_FIX:
            return NeedsFix(said or f"the job {self.task_id} was refused; its log says why")
        if code in OUT_OF_MEMORY:
            return NeedsFix(str(out_of_memory(settings)))
        return AirflowException(said or (f"the job ended with exit code {code}" if found else str(error)))


class RebuildJob(SparkJob):
    """Rebuilds the days of a plan. Fails without a retry if what readers have of these days has changed since the plan.
    (The job itself counts the landed events again.)"""

    operator_extra_links = (CertificatesLink(), ChecksLink())

    def execute(self, context: Context) -> None:
        from anabranch.change.reprocess_plan import check_still_published

        with failing():
            check_still_published(load_settings(), self.planned)
        context["ti"].xcom_push("began", datetime.now(UTC).isoformat())
        super().execute(context)


def reprocess_steps(planned: Any, view: str = "") -> None:
    """Wires the tasks after a plan: approve (a large one), rebuild, publish, which produces the view's assets. Older
    DAG files don't name the ``view``: it is the one that they have named to the plan."""
    approved = PlanApproval(task_id="approve", planned=planned)
    assets = view_assets(view or planned.operator.op_args[0])
    planned >> approved >> rebuilt(planned) >> publish.override(outlets=assets)(planned)


def rebuilt(planned: Any) -> SparkJob:
    """The task that rebuilds days and certifies them in one Spark engine: starting another one takes longer than to
    certify.

    Runs of one DAG take turns only at this task, so a run that waits for a person blocks no other.
    """
    return RebuildJob(task_id="rebuild", planned=planned, options=("days", "cut", "fingerprint", "events", "late"))


def engine_properties(settings: Settings, *, few: bool) -> Path:
    """Writes the engine's settings to a file, so that commands in logs and errors stay readable. ``few``: for a job
    over few events.

    Equal settings give an equal file, written atomically, so parallel tasks don't disturb each other.
    """
    more = short_engine(settings) if few else {}
    conf = {**engine_conf(settings, more), "spark.pyspark.python": sys.executable, "spark.log.level": "WARN"}
    equal = {key: value for key, value in conf.items() if key not in scratch_conf(settings)}
    lines = (f"{key} {value}".replace("\\", "\\\\") for key, value in sorted(equal.items()))
    path = settings.home / "control" / ("spark-few.properties" if few else "spark.properties")
    return write_atomically(path, "\n".join(lines) + "\n")
