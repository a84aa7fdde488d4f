"""Spark work of a DAG: a program of ``operate.jobs`` given to spark-submit with the platform's own engine settings."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.apps.airflow.approval import PlanApproval
from anabranch.apps.airflow.links import CertificatesLink, DataDocsLink
from anabranch.apps.airflow.reprocess_tasks import failing, publish
from anabranch.core.atomic_files import write_atomically
from anabranch.core.die_with_parent import mark_as_owner
from anabranch.core.errors import EXIT_NEEDS_FIX
from anabranch.core.settings import Settings, load_settings
from anabranch.core.spark import engine_conf, hold_scratch, scratch_conf
from anabranch.ingest.landing.epoch_pacing import run_first
from anabranch.operate.jobs import job_file

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

if TYPE_CHECKING:
    from airflow.sdk import Context


class SparkJob(SparkSubmitOperator):
    """The job ``task_id`` with ``--view V --version N --run ID`` and an ``options`` flag for each named entry of
    the plan that isn't None. What the job found out is in the record that it leaves for the next step.

    A retry submits the job again; the job is keyed by ``--run``, so a second try repeats or finishes the first. What a
    person has to mend first is not tried again. The job ends with the task, and with the worker that carries it out.
    Nothing is read from this machine before the task runs, so parsing the DAG needs neither JARs nor settings.
    Values go to the job as separate arguments, never through a shell.
    """

    template_fields: Sequence[str] = (*SparkSubmitOperator.template_fields, "planned")
    operator_extra_links = (CertificatesLink(), DataDocsLink())
    ui_color = "#f4dcc6"

    def __init__(self, *, planned: Any, options: Sequence[str] = (), **kwargs: Any) -> None:
        kwargs.setdefault("execution_timeout", timedelta(hours=2))
        kwargs.setdefault("max_active_tis_per_dag", 1)
        super().__init__(conn_id="spark_default", name=f"anabranch-{kwargs['task_id']}", **kwargs)
        self.planned = planned
        self.options = tuple(options)

    def execute(self, context: Context) -> None:
        settings = load_settings()
        plan: dict[str, Any] = self.planned
        flags = {name: plan[name] for name in ("view", "version", "run", *self.options)}
        self.application = str(job_file(settings, self.task_id))
        given = {name: str(value) for name, value in flags.items() if value is not None}
        self.application_args = [text for name, value in given.items() for text in (f"--{name}", value)]
        self.properties_file = str(engine_properties(settings))
        hold_scratch(settings)
        self.conf = {**(self.conf or {}), **scratch_conf(settings)}
        mark_as_owner()
        try:
            with run_first(settings):
                super().execute(context)
        except AirflowException as error:
            if f"Error code is: {EXIT_NEEDS_FIX}." in str(error):
                raise AirflowFailException(str(error)) from None
            raise


class RebuildJob(SparkJob):
    """Days of a plan, as long as readers have of them what the plan says that it replaces. (The job counts again
    what the plan has counted in landing.)"""

    def execute(self, context: Context) -> None:
        from anabranch.change.reprocess_plan import check_still_published

        with failing():
            check_still_published(load_settings(), self.planned)
        super().execute(context)


def reprocess_steps(planned: Any) -> None:
    """The steps behind every plan: approve (a large one), rebuild, publish."""
    approved = PlanApproval(task_id="approve", planned=planned)
    planned >> approved >> rebuilt(planned) >> publish(planned)


def rebuilt(planned: Any) -> SparkJob:
    """Days are rebuilt and judged, by one engine: to start another one takes longer than to judge them.

    Runs of one DAG take turns at Spark, not at everything: one that waits for a person keeps no other from its work.
    """
    return RebuildJob(task_id="rebuild", planned=planned, options=("days", "cut", "fingerprint", "events", "late"))


def engine_properties(settings: Settings) -> Path:
    """The engine's settings as a file, so that a command in a log or an error is short enough to read.

    Equal settings make an equal file, and it appears in one step: tasks side by side can't disturb each other.
    """
    conf = {**engine_conf(settings), "spark.pyspark.python": sys.executable, "spark.log.level": "WARN"}
    equal = {key: value for key, value in conf.items() if key not in scratch_conf(settings)}
    lines = (f"{key} {value}".replace("\\", "\\\\") for key, value in sorted(equal.items()))
    path = settings.home / "control" / "spark.properties"
    return write_atomically(path, "\n".join(lines) + "\n")
