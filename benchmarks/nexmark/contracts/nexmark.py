"""The topic of the auction house. Declared here and not in spark_jobs, else every `anabranch up` would land it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from anabranch.contracts import Contract, Topic

_HERE = Path(__file__).parent

NEXMARK = Topic(
    "nexmark",
    contracts=tuple(
        Contract.from_file(_HERE / f"{name}.v1.json") for name in ("nexmark.person", "nexmark.auction", "nexmark.bid")
    ),
    partitions=4,
    retention=timedelta(days=30),
    allowed_lateness=timedelta(hours=2),
)
