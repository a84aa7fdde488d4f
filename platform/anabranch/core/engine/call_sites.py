"""Lets errors name the line of an author's file that called Spark, and nothing else pay for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_LOCK = Lock()
_scopes = 0


@contextmanager
def call_sites() -> Iterator[None]:
    """In this block Spark records the file and line of each call of its Python functions, for errors at run time and
    for the checks of a definition; wrap it around an author's function. It makes each call three to four
    times as slow, so ``spark.ENGINE`` turns it off for all else.

    What is recorded is a property of the process: other threads that build expressions meanwhile only become slower.
    """
    from pyspark.errors import utils

    global _scopes
    with _LOCK:
        _scopes += 1
        utils._enable_debugging_cache = True  # type: ignore[assignment] # it has no annotation
    try:
        yield
    finally:
        with _LOCK:
            _scopes -= 1
            if _scopes == 0:
                utils._enable_debugging_cache = None  # the next call asks its session's settings again
