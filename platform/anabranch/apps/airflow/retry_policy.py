"""The retry policy of all DAGs. Kills and outages are retried; errors that need a fix are not (``failing``)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final

DEFAULT_ARGS: Final[Mapping[str, Any]] = MappingProxyType(
    {"owner": "anabranch", "retries": 3, "retry_delay": timedelta(seconds=10)}
)
"""Default arguments of every DAG. Three retries, because a task of minutes may be killed more than once."""
