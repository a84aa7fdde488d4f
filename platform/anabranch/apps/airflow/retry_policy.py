"""How often a task is tried. What has to be mended first is never tried again; what was killed, or away, is."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final

DEFAULT_ARGS: Final[Mapping[str, Any]] = MappingProxyType(
    {"owner": "anabranch", "retries": 3, "retry_delay": timedelta(seconds=10)}
)
"""Of every DAG. Three: on a bad night a task of minutes is killed more than once."""
