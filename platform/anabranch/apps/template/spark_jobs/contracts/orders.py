"""The topic orders: what our shop sells."""

from datetime import timedelta
from pathlib import Path

from anabranch.contracts import Contract, Topic

ORDERS = Topic(
    "orders",
    contracts=(Contract.from_file(Path(__file__).parent / "order.placed.v1.json"),),
    partitions=2,
    allowed_lateness=timedelta(hours=1),
)
