"""The Spark session for proofs: an existing one, or one that is created and shared by all proofs of the process.

Proofs run thousands of jobs over a handful of rows. What makes large jobs fast (code generation, adaptive execution)
takes most of the time of such a job, so the sessions that a proof opens turn it off.
"""

from __future__ import annotations

import atexit
import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.core.engine.spark import existing_session, small
from anabranch.core.settings import load_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_created: list[tuple[SparkSession, tempfile.TemporaryDirectory[str]]] = []


def engine(spark: SparkSession | None = None) -> SparkSession:
    """Returns ``spark``, else the session of this process, else a new one that is kept until ``close``.

    Raises BadInput SESSION_UNFIT when the existing session lacks settings of ``anabranch.core.engine.spark.session``.
    """
    from pyspark.sql import SparkSession

    found = existing_session(spark or SparkSession.getActiveSession())
    return _create() if found is None else found


def _create() -> SparkSession:
    from anabranch.core.engine.spark import session

    home = tempfile.TemporaryDirectory(prefix="anabranch-proofs-")
    options = {"spark.default.parallelism": "2", "spark.sql.adaptive.enabled": "false"}
    new = session(load_settings(home=Path(home.name), spark_conf=options), "anabranch-proofs")
    _created.append((new, home))
    if len(_created) == 1:
        atexit.register(close)  # a process that leaves its session running may never exit
    return new


def close() -> None:
    """Stops the session that proofs created, if there is one. Called at the end of a pytest run."""
    while _created:
        created, home = _created.pop()
        created.stop()
        home.cleanup()


@contextmanager
def quiet(spark: SparkSession) -> Iterator[None]:
    """Silences Spark's logs: while a failure is shrunk it occurs hundreds of times, and each would log a page."""
    from pyspark.logger import PySparkLogger

    # Not logging.getLogger: the first caller decides the logger's class, and Spark's errors need PySparkLogger.
    context, python = spark.sparkContext, PySparkLogger.getLogger("DataFrameQueryContextLogger")
    jvm: Any = spark._jvm
    before = str(jvm.org.apache.logging.log4j.LogManager.getRootLogger().getLevel()), python.level
    context.setLogLevel("OFF")
    python.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        context.setLogLevel(before[0])
        python.setLevel(before[1])


class SmallSessions:
    """A session whose ``newSession`` returns a small one, for streams (``compute.speed.view_stream`` opens a new
    session)."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def newSession(self) -> SparkSession:  # noqa: N802 - Spark's name
        return small(self._spark)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spark, name)
