"""Topics for the gallery: reference data and saved searches as events. The platform doesn't land them by default."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from anabranch.contracts import Contract, Topic


def _contract(name: str) -> Contract:
    return Contract.from_file(Path(__file__).parent / f"{name}.v1.json")


PLANES = Topic("planes", (_contract("plane.registered"),), partitions=1, allowed_lateness=timedelta(hours=2))
SEARCHES = Topic(
    "searches",
    (_contract("search.saved"), _contract("search.removed")),
    partitions=1,
    allowed_lateness=timedelta(hours=2),
)
