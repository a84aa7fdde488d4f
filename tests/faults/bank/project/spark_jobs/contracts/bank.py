"""The bank's one topic."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from anabranch.contracts import Contract, Topic

_HERE = Path(__file__).parent

BANK = Topic(
    "bank",
    tuple(Contract.from_file(_HERE / f"{name}.v1.json") for name in ("account.opened", "transfer.made")),
    partitions=2,
    allowed_lateness=timedelta(hours=2),
)
