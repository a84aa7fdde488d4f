"""The Spark session that an explanation runs in."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

from anabranch.core.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def small_session(settings: Settings, given: SparkSession | None) -> Iterator[Future[SparkSession]]:
    """A small session, started beside what needs none. Spark that was started for it is stopped, also on an error."""
    from anabranch.core.spark import small

    with ThreadPoolExecutor(1) as beside:
        started = beside.submit(_engine, settings, given)
        try:
            yield beside.submit(lambda: small(started.result()[0]))
        finally:
            spark, own = started.result()
            if own:
                spark.stop()


def _engine(settings: Settings, given: SparkSession | None) -> tuple[SparkSession, bool]:
    """``given``, else the session of this process, else one made now; and whether it was made now."""
    from anabranch.core.spark import OWN_CODE, java_options, session
    from pyspark.sql import SparkSession

    found = given or SparkSession._instantiatedSession
    if found is not None and found.sparkContext._jsc is not None:
        return found, False
    # It lives for seconds: what the optimizing compiler would make of its code comes too late. Nobody reads where an
    # author's expression failed: a choice of events that the function can't take just has no rows.
    quick = {**OWN_CODE, "spark.driver.defaultJavaOptions": f"{java_options(settings)} -XX:TieredStopAtLevel=1"}
    return session(settings, "anabranch-explain", quick), True
