"""Packages that a plain ``pip install anabranch`` leaves out, and the extra that brings each.

A reader of views needs tables and the command line only; engines, servers and plots are extras (pyproject.toml).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import MappingProxyType
from typing import Final

from anabranch.core.errors import BadInput

EXTRAS: Final = MappingProxyType(
    {
        "airflow": "airflow",
        "confluent_kafka": "kafka",
        "delta": "spark",
        "duckdb": "duckdb",
        "fastavro": "formats",
        "google": "formats",
        "great_expectations": "checks",
        "httpx": "airflow",
        "hypothesis": "test",
        "jsonschema_rs": "kafka",
        "matplotlib": "plots",
        "msgspec": "formats",
        "numpy": "platform",
        "pandas": "pandas",
        "pika": "queues",
        "polars": "polars",
        "psycopg": "airflow",
        "pyspark": "spark",
        "regex": "kafka",
        "starlette": "http",
        "uvicorn": "http",
    }
)
"""Extras by the name of the module that they bring."""


def missing_extra(error: ModuleNotFoundError) -> BadInput | None:
    """The error for a module that an extra brings, BadInput EXTRA_MISSING; None for any other module."""
    module = (error.name or "").partition(".")[0]
    extra = EXTRAS.get(module)
    if extra is None:
        return None
    return BadInput(
        "EXTRA_MISSING",
        f"this needs {module}, which isn't installed: it comes with the extra {extra}",
        state="nothing was read or changed",
        next_step=f"pip install 'anabranch[{extra}]'",
        module=module,
        extra=extra,
    )


@contextmanager
def needs_extras() -> Iterator[None]:
    """A block, or as a decorator a function, in which a missing extra is BadInput EXTRA_MISSING."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (missing := missing_extra(error)) is not None:
            raise missing from error
        raise
