"""An engine for the length of a block, and what its end is to whoever works with it: Spark's client only says then that
nobody answers.

A JVM that has run out of memory is ended at once (``spark.JAVA_OPTIONS``). It would live on else without the thread
that the memory was denied to, and those that wait for that thread would wait for ever.
"""

from __future__ import annotations

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

from anabranch.core.errors import AnabranchError, BadInput, TryAgain, root_cause
from anabranch.core.settings import Settings, heap
from anabranch.core.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OUT_OF_MEMORY: Final = (3, 52)
"""The exit codes of a JVM that has run out of memory: when it has ended itself, and when Spark has ended it."""
_END_SECONDS: Final = 5.0
"""From the end of its connections to its own."""
_UNANSWERED: Final = re.compile(r"Answer from Java side is empty|while (sending|trying to connect)|Connection refused")
_DENIED: Final = re.compile(r"OutOfMemory|UNABLE_TO_ACQUIRE_MEMORY|Not enough memory to build")


@contextmanager
def engine(settings: Settings, app: str, more: Mapping[str, str] = MappingProxyType({})) -> Iterator[SparkSession]:
    """``spark.session``, stopped behind the block. Whatever the block raises, or returns with: BadInput
    ENGINE_OUT_OF_MEMORY or TryAgain ENGINE_ENDED, where the engine has ended by itself meanwhile.

    Not known where the engine has started this process (spark-submit): it says so itself:
    see ``apps.airflow.spark_job``.
    """
    spark = None
    try:
        spark = session(settings, app, more)
        yield spark
    except Exception as error:
        if (why := _why(settings, error)) is not None:
            # Spark's client says of each object that is let go now that nobody answers: behind the words that matter.
            logging.getLogger().addFilter(_is_ours)
            raise why from error
        raise
    else:
        if (why := _ended(settings)) is not None:
            raise why
    finally:
        if spark is not None and _ended(settings) is None:
            spark.stop()


def leave(code: int) -> Never:
    """End this process; at once, if its engine has ended before it: threads of Spark's client still wait for it,
    and Python's normal exit then crashes (SIGSEGV, in every other run), which loses the exit code."""
    if (jvm := _jvm()) is not None and jvm.poll() is not None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _jvm() -> subprocess.Popen[bytes] | None:
    """That of this process' engine, where this process has started it."""
    from pyspark import SparkContext

    return getattr(SparkContext._gateway, "proc", None)


def _is_ours(record: logging.LogRecord) -> bool:
    return "py4j" not in record.pathname


def out_of_memory(settings: Settings, what: str = "") -> BadInput:
    """The heap of an engine was too small for what it had to do. ``what``: the words of it."""
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
    """Whether an error says that there was no memory."""
    return _DENIED.search(str(error)) is not None


def _why(settings: Settings, error: Exception) -> AnabranchError | None:
    ended = _ended(settings, _END_SECONDS if _UNANSWERED.search(repr(error)) else 0.0)
    if ended is None and denied(error):
        return out_of_memory(settings, root_cause(error))
    return ended


def _ended(settings: Settings, seconds: float = 0.0) -> AnabranchError | None:
    """Why the engine has ended by itself; None where it runs, or nobody knows."""
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
