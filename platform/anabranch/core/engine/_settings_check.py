"""Checks the user's Spark settings when the engine starts, and names the setting that Spark rejects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from anabranch.core.errors import AnabranchError, BadInput, BrokenState, root_cause

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STATE = "the engine was not started, and nothing was read or written"


def refusal(error: Exception, given: Mapping[str, str]) -> AnabranchError | None:
    """The error to raise when a start of Spark failed with ``error``: BadInput ENGINE_SETTING if its text names one of
    the ``given`` settings, BrokenState ENGINE_NOT_STARTED if the JVM ended at once, None for anything else."""
    if isinstance(error, AnabranchError):
        return error
    named = sorted(name for name in given if name in str(error))
    if named:
        return _wrong(named[0], given[named[0]], root_cause(error))
    if "INVALID_DRIVER_MEMORY" in str(error):
        return BadInput(
            "ENGINE_SETTING",
            f"ANABRANCH_SPARK_DRIVER_MEMORY is too small for Spark: {root_cause(error)}",
            state=_STATE,
            next_step="set it to 600m or more",
            settings=["spark_driver_memory"],
        )
    if "JAVA_GATEWAY_EXITED" not in str(error):
        return None
    return BrokenState(
        "ENGINE_NOT_STARTED",
        f"the JVM of the engine ended during its start: {root_cause(error)}",
        state=_STATE,
        next_step="read the lines above on stderr; settings that can stop a JVM are ANABRANCH_SPARK_DRIVER_MEMORY "
        f"and, of ANABRANCH_SPARK_CONF: {', '.join(sorted(given)) or 'none are given'}",
    )


def check_values(spark: SparkSession, given: Mapping[str, str]) -> None:
    """Set each of the ``given`` settings once, in a separate session: Spark validates most values only when a job needs
    them. Raises BadInput ENGINE_SETTING."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    own = spark.newSession()
    for name, value in given.items():
        if not own.conf.isModifiable(name):
            continue
        try:
            own.conf.set(name, value)
        except (PySparkException, Py4JJavaError) as error:
            raise _wrong(name, value, root_cause(error)) from error


def _wrong(name: str, value: str, why: str) -> BadInput:
    return BadInput(
        "ENGINE_SETTING",
        f"ANABRANCH_SPARK_CONF: Spark rejects {name}={value}: {why}",
        state=_STATE,
        next_step=f"correct {name}, or remove it",
        settings=["spark_conf"],
        name=name,
    )
