"""The Spark session that proofs run in: the one that is there, or one of their own, shared by all proofs of a process.

Proofs run thousands of jobs over a handful of rows. What Spark does to make large jobs fast (compile each plan, plan
again at run time) is most of the time of such a job, so the sessions that a proof opens do without it.
"""

from __future__ import annotations

import atexit
import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from anabranch.core.errors import BadInput
from anabranch.core.settings import load_settings
from anabranch.core.spark import small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NEEDED: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.session.timeZone": "UTC",
}
_own: list[tuple[SparkSession, tempfile.TemporaryDirectory[str]]] = []


def engine(spark: SparkSession | None = None) -> SparkSession:
    """``spark``, else the session of this process, else one made now and kept until ``close``.

    BadInput SESSION_UNFIT where the session that is there wasn't made by ``anabranch.core.spark.session``.
    """
    from pyspark.sql import SparkSession

    found = spark or SparkSession.getActiveSession() or _default()
    if found is None:
        return _made()
    conf = dict(found.sparkContext.getConf().getAll())
    for name, value in _NEEDED.items():
        if value not in conf.get(name, ""):
            raise BadInput(
                "SESSION_UNFIT",
                f"the Spark session of this process has {name}={conf.get(name, 'nothing')!r}, {value!r} is needed",
                state="nothing was proven",
                next_step="make it with anabranch.core.spark.session(), or make none: prove() makes its own",
                setting=name,
            )
    return found


def _default() -> SparkSession | None:
    """A session that another thread made, or a fixture that never ran a query; None when it was stopped."""
    from pyspark.sql import SparkSession

    found: SparkSession | None = SparkSession._instantiatedSession
    return found if found is not None and found.sparkContext._jsc is not None else None


def _made() -> SparkSession:
    from anabranch.core.spark import session

    home = tempfile.TemporaryDirectory(prefix="anabranch-proofs-")
    options = {"spark.default.parallelism": "2", "spark.sql.adaptive.enabled": "false"}
    made = session(load_settings(home=Path(home.name), spark_conf=options), "anabranch-proofs")
    _own.append((made, home))
    if len(_own) == 1:
        atexit.register(close)  # a process that leaves its session running may never exit
    return made


def close() -> None:
    """Stop the session that proofs made for themselves, if there is one. Called at the end of a pytest run."""
    while _own:
        made, home = _own.pop()
        made.stop()
        home.cleanup()


@contextmanager
def quiet(spark: SparkSession) -> Iterator[None]:
    """While a failure is made smaller it happens hundreds of times: Spark would log as many pages of the same."""
    from pyspark.logger import PySparkLogger

    # Not logging.getLogger: whoever asks first decides the logger's class, and Spark's errors need Spark's own.
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
    """Stands in for a session where a stream opens one of its own (``compute.speed.view_stream``): a small one."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def newSession(self) -> SparkSession:  # noqa: N802 - Spark's name
        return small(self._spark)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spark, name)
