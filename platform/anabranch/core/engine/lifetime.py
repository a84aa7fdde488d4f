"""A Spark session for the duration of a block, with a clear error when the engine's JVM ends during it: Spark's client
only reports a refused connection.

A JVM that runs out of memory exits at once (``spark.JAVA_OPTIONS``). Otherwise it would go on without the thread that
was denied memory, and threads that wait for that one would wait for ever.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Never

from anabranch.core.engine.spark import session
from anabranch.core.errors import AnabranchError, BadInput, TryAgain, root_cause
from anabranch.core.settings import Settings, heap

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OUT_OF_MEMORY: Final = (3, 52)
"""Exit codes of a JVM that ran out of memory: its own exit, and Spark's."""
_END_SECONDS: Final = 5.0
"""How long a JVM may take to exit after its connections are closed."""
_UNANSWERED: Final = re.compile(r"Answer from Java side is empty|while (sending|trying to connect)|Connection refused")
_UNTOLD: Final = re.compile(r"\s*An error occurred while calling \S+\s*")
"""What Spark's client says when a call has failed and the JVM can't say why: it was denied the memory for that, too."""
_DENIED: Final = re.compile(r"OutOfMemory|UNABLE_TO_ACQUIRE_MEMORY|Not enough memory to build")


@contextmanager
def engine(settings: Settings, app: str, more: Mapping[str, str] = MappingProxyType({})) -> Iterator[SparkSession]:
    """``spark.session``, stopped after the block. If the engine has ended by itself, raises BadInput
    ENGINE_OUT_OF_MEMORY or TryAgain ENGINE_ENDED in place of what the block raises or returns.

    Doesn't apply to a process that the engine has started (spark-submit): see ``apps.airflow._spark_job``.
    """
    spark = None
    try:
        spark = session(settings, app, more)
        yield spark
    except Exception as error:
        if (why := _why(settings, error)) is not None:
            # For each released object Spark's client logs that nobody answers, which would hide the error.
            logging.getLogger().addFilter(_is_ours)
            raise why from error
        raise
    else:
        if (why := _ended(settings, _END_SECONDS if _is_ending(spark) else 0.0)) is not None:
            raise why
    finally:
        if spark is not None and _ended(settings) is None:
            _stop(spark, settings)


def _is_ending(spark: SparkSession) -> bool:
    """Whether the engine has been stopped, though not from here: by its JVM, which does so on its way out."""
    try:
        context = spark.sparkContext._jsc
        return context is not None and bool(context.sc().isStopped())
    except Exception:  # nobody answers
        return True


def _stop(spark: SparkSession, settings: Settings) -> None:
    try:
        spark.stop()
    except Exception as error:  # it ends just now
        if (why := _why(settings, error)) is not None:
            raise why from error
        raise


def leave(status: int) -> Never:
    """End this process, without Python's last clean-up. That destroys Kafka's clients, which waits for their threads:
    for a day, if the machine's clock was set back by one. If the engine has ended before, threads of Spark's client
    still wait for it, and the clean-up crashes (SIGSEGV, in every other run), which loses the exit code."""
    if (jvm := _jvm()) is None or jvm.poll() is None:
        atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _jvm() -> subprocess.Popen[bytes] | None:
    """The JVM of this process' engine; None if this process hasn't started it."""
    from pyspark import SparkContext

    return getattr(SparkContext._gateway, "proc", None)


def _is_ours(record: logging.LogRecord) -> bool:
    return "py4j" not in record.pathname


def out_of_memory(settings: Settings, what: str = "") -> BadInput:
    """The error for an engine whose heap was too small. ``what``: its own message."""
    given = heap(settings)
    return BadInput(
        "ENGINE_OUT_OF_MEMORY",
        f"the engine has run out of memory: its heap is {given}{f' ({what})' if what else ''}",
        state="what it had in hand was not committed; tables and checkpoints are as they were before",
        next_step=f"set ANABRANCH_SPARK_DRIVER_MEMORY to more than {given}, and start it again: it goes on where it is",
        settings=["spark_driver_memory"],
        heap=given,
    )


def denied(error: BaseException) -> bool:
    """Whether an error reports a lack of memory."""
    return _DENIED.search(str(error)) is not None


def _why(settings: Settings, error: Exception) -> AnabranchError | None:
    silent = _UNANSWERED.search(repr(error)) or _UNTOLD.fullmatch(str(error))
    ended = _ended(settings, _END_SECONDS if silent else 0.0)
    if ended is None and denied(error):
        return out_of_memory(settings, root_cause(error))
    return ended


def _ended(settings: Settings, seconds: float = 0.0) -> AnabranchError | None:
    """Why the engine has ended by itself; None if it runs, or if that is unknown."""
    if (jvm := _jvm()) is None:
        return None
    try:
        code = jvm.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    if code in OUT_OF_MEMORY:
        return out_of_memory(settings)
    killed = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"has ended with exit code {code}"
    return TryAgain(
        "ENGINE_ENDED",
        f"the engine {killed}",
        state="what it had in hand was not committed; tables and checkpoints are as they were before",
        next_step="start it again, where nothing does that by itself. The kernel kills with SIGKILL where the machine "
        "has no memory left (dmesg says so): give engines less (ANABRANCH_SPARK_DRIVER_MEMORY), or the machine more",
        exit_code=code,
    )
