"""Detect reads that fail inside Spark when the rows are collected, with a query execution listener.

A reading's DataFrame has a unique alias, which the listener finds in the failed query's plan. Only errors of files of
the reading's tables are counted: errors of the reader's own query (a cast, a UDF), of its own files and of its session
are not the view's fault.
"""

from __future__ import annotations

import logging
import re
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from anabranch.lake.layout import VersionRef
from anabranch.serve._own_failures import readers_own
from anabranch.serve.reader_log import record_failed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)
_NAME = re.compile(r"\banabranch_reading_\d+\b")
_FILE_ERRORS = ("FAILED_READ_FILE", "FileNotFoundException", "org.apache.parquet", "DELTA_")
_GONE = ("FileNotFoundException", "FILE_NOT_EXIST", "FILE_NOT_FOUND")
_UNFIT_SESSION = "DELTA_CONFIGURE_SPARK_SESSION"
_MAX_WATCHED = 1_000
_numbers = count(1)
_listening: set[int] = set()
"""The sessions that have the listener, by their hash code in the JVM."""


@dataclass(frozen=True, slots=True)
class Watched:
    """What is needed to count a failed read, and no more, because it outlives the reading. ``tables``: the URIs of the
    tables that are read."""

    ref: VersionRef
    reader: str
    route: int
    tables: tuple[str, ...]


_watched: OrderedDict[str, Watched] = OrderedDict()
"""By the alias of its DataFrame, oldest first."""


def watch_failures(spark: SparkSession, rows: DataFrame, watched: Watched) -> DataFrame:
    """Return ``rows`` such that a query over them that fails to read a file of the reading is counted as a failed read:
    once per failed query, asynchronously, on Spark's listener thread. Not guaranteed with Spark Connect, which has no
    listeners, nor after many later readings."""
    if not _listen(spark):
        return rows
    name = f"anabranch_reading_{next(_numbers)}"
    _watched[name] = watched
    if len(_watched) > _MAX_WATCHED:
        _watched.popitem(last=False)
    return rows.alias(name)


def is_about_tables(text: str, tables: Sequence[str]) -> bool:
    """Return whether an error of Spark while it opened ``tables`` is about them: it names one of them, or Delta raised
    it. Otherwise it is the session's."""
    return _names_one(text, tables) or ("[DELTA_" in text and _UNFIT_SESSION not in text)


def _names_one(text: str, tables: Sequence[str]) -> bool:
    return any(uri in text for uri in tables)


def _count(causes: str, aliases: set[str]) -> None:
    """Count a failed query over readings with these ``aliases``, if a file of theirs is what failed."""
    for watched in (_watched[alias] for alias in aliases if alias in _watched):
        if _names_one(causes, watched.tables):
            code = "READING_EXPIRED" if any(known in causes for known in _GONE) else "FILE_UNREADABLE"
            record_failed(watched.ref, watched.reader, code, engine="spark", route=watched.route)


class _Listener:
    """Spark's QueryExecutionListener, called through py4j."""

    def onSuccess(self, name: str, query: Any, nanoseconds: int) -> None:  # noqa: N802 - Spark's name
        pass

    def onFailure(self, name: str, query: Any, error: Any) -> None:  # noqa: N802 - Spark's name
        try:
            causes = " <- ".join(_causes(error))
            if any(known in causes for known in _FILE_ERRORS) and not readers_own("", OSError(causes)):
                _count(causes, set(_NAME.findall(query.analyzed().toString())))
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
