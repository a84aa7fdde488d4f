"""Starts or reuses the Spark session of an explanation."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from anabranch.core.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def explain_session(settings: Settings, given: SparkSession | None) -> Iterator[Future[SparkSession]]:
    """Yields a future of a small session that starts in a thread, so that work without Spark can run meanwhile. A
    session that was started here is stopped at the end, also on an error."""
    from anabranch.core.engine.spark import small

    with ThreadPoolExecutor(1) as executor, ExitStack() as cleanup:
        started = executor.submit(_given_or_new, settings, given, cleanup)
        try:
            yield executor.submit(lambda: small(started.result()))
        finally:
            started.result()


def _given_or_new(settings: Settings, given: SparkSession | None, cleanup: ExitStack) -> SparkSession:
    """Returns ``given``, else the session of this process, else a new one, which ends with ``cleanup``."""
    from pyspark.sql import SparkSession

    from anabranch.core.engine.java_options import short_engine
    from anabranch.core.engine.lifetime import engine

    found = given or SparkSession._instantiatedSession
    if found is not None and found.sparkContext._jsc is not None:
        return found
    return cleanup.enter_context(engine(settings, "anabranch-explain", short_engine(settings)))
