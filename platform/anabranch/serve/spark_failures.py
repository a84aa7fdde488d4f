"""Reads that fail inside of Spark, when the rows are drawn: Spark tells a listener, and it is counted.

Rows that a reading gives to Spark carry a name in the query's plan. Only errors of files are counted: what somebody's
own query does wrong (a cast, a function of theirs) is no fault of the view's.
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
_OF_FILES = ("FAILED_READ_FILE", "FileNotFoundException", "org.apache.parquet", "java.io.", "DELTA_")
_MOST = 10_000
_numbers = count(1)
_watched: OrderedDict[str, Callable[[str], None]] = OrderedDict()
_listening: set[int] = set()
"""The sessions that have the listener, by their identity in the JVM."""


def watched(spark: SparkSession, rows: DataFrame, failed: Callable[[str], None]) -> DataFrame:
    """``rows``; when drawing them fails, ``failed`` is called with the error's text, once for each failed query. Called
    later, on a thread of Spark's listeners. Not promised with Spark Connect, which has no listeners."""
    if not _listen(spark):
        return rows
    name = f"anabranch_reading_{next(_numbers)}"
    _watched[name] = failed
    if len(_watched) > _MOST:
        _watched.popitem(last=False)
    return rows.alias(name)


class _Listener:
    """Spark's QueryExecutionListener, called through py4j."""

    def onSuccess(self, name: str, query: Any, nanoseconds: int) -> None:  # noqa: N802 - Spark's name
        pass

    def onFailure(self, name: str, query: Any, error: Any) -> None:  # noqa: N802 - Spark's name
        try:
            causes = " <- ".join(_causes(error))
            if any(known in causes for known in _OF_FILES):
                for found in set(_NAME.findall(query.analyzed().toString())):
                    if found in _watched:
                        _watched[found](causes)
        except Exception as wrong:  # a listener that raises would only fill Spark's log
            log.warning("a failed query was not looked at: %s", wrong)

    class Java:
        implements = ("org.apache.spark.sql.util.QueryExecutionListener",)


def _causes(error: Any) -> Iterator[str]:
    for _ in range(10):
        if error is None:
            return
        yield str(error.toString())
        error = error.getCause()


def _listen(spark: SparkSession) -> bool:
    """Whether the session has our listener now."""
    session = getattr(spark, "_jsparkSession", None)
    if session is None:
        return False
    if session.hashCode() not in _listening:
        from pyspark.java_gateway import ensure_callback_server_started

        ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
        session.listenerManager().register(_Listener())
        _listening.add(session.hashCode())
    return True
