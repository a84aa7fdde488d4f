"""Detect reads that fail inside Spark when the rows are collected, with a query execution listener.

A reading's DataFrame has a unique alias, which the listener finds in the failed query's plan. Only file errors are
counted: errors of the reader's own query (a cast, a UDF) are not the view's fault.
"""

from __future__ import annotations

import logging
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)
_NAME = re.compile(r"\banabranch_reading_\d+\b")
_FILE_ERRORS = ("FAILED_READ_FILE", "FileNotFoundException", "org.apache.parquet", "DELTA_")
_MAX_CALLBACKS = 10_000
_numbers = count(1)
_callbacks: OrderedDict[str, Callable[[str], None]] = OrderedDict()
_listening: set[int] = set()
"""The sessions that have the listener, by their hash code in the JVM."""


def watch_failures(spark: SparkSession, rows: DataFrame, failed: Callable[[str], None]) -> DataFrame:
    """Return ``rows`` such that ``failed`` is called with the error's text when a query over them fails to read a file:
    once per failed query, asynchronously, on Spark's listener thread. Not guaranteed with Spark Connect, which has no
    listeners."""
    if not _listen(spark):
        return rows
    name = f"anabranch_reading_{next(_numbers)}"
    _callbacks[name] = failed
    if len(_callbacks) > _MAX_CALLBACKS:
        _callbacks.popitem(last=False)
    return rows.alias(name)


class _Listener:
    """Spark's QueryExecutionListener, called through py4j."""

    def onSuccess(self, name: str, query: Any, nanoseconds: int) -> None:  # noqa: N802 - Spark's name
        pass

    def onFailure(self, name: str, query: Any, error: Any) -> None:  # noqa: N802 - Spark's name
        try:
            causes = " <- ".join(_causes(error))
            if any(known in causes for known in _FILE_ERRORS):
                for alias in set(_NAME.findall(query.analyzed().toString())):
                    if alias in _callbacks:
                        _callbacks[alias](causes)
        except Exception as own_error:  # a listener that raises would only fill Spark's log
            log.warning("a failed query could not be examined: %s", own_error)

    class Java:
        implements = ("org.apache.spark.sql.util.QueryExecutionListener",)


def _causes(error: Any) -> Iterator[str]:
    for _ in range(10):
        if error is None:
            return
        yield str(error.toString())
        error = error.getCause()


def _listen(spark: SparkSession) -> bool:
    """Register our listener with the session, if it isn't yet. Returns False if the session can't have one."""
    session = getattr(spark, "_jsparkSession", None)
    if session is None:
        return False
    if session.hashCode() not in _listening:
        from pyspark.java_gateway import ensure_callback_server_started

        ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
        session.listenerManager().register(_Listener())
        _listening.add(session.hashCode())
    return True
