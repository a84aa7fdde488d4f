"""Reference data as events, for the gallery's views with tables. The platform doesn't land it unasked."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from anabranch.events import Contract, Topic

PLANES = Topic(
    "planes",
    contracts=(Contract.from_file(Path(__file__).parent / "plane.registered.v1.json"),),
    partitions=1,
    retention=timedelta(days=30),
    allowed_lateness=timedelta(hours=2),
)
