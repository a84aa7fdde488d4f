"""The departures of the sample with a second version of their contract, as a team would declare them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from anabranch.contracts import Contract, Topic, Upcaster
from pyspark.sql import Column
from pyspark.sql import functions as F

_HERE = Path(__file__).parent
_SAMPLE = _HERE.parents[3] / "spark_jobs" / "contracts"


def departed_v2(old: Mapping[str, Column]) -> Mapping[str, Column]:
    """The delay in its two parts; the destination by its whole name."""
    delay = old["dep_delay"]
    return {
        "destination": old["dest"],
        "minutes_early": F.when(delay < 0, -delay).when(delay >= 0, 0),
        "minutes_late": F.when(delay > 0, delay).when(delay <= 0, 0),
    }


FLIGHTS = Topic(
    "flights",
    contracts=(
        Contract.from_file(_SAMPLE / "flight.departed.v1.json"),
        Contract.from_file(_HERE / "flight.departed.v2.json"),
    ),
    allowed_lateness=timedelta(hours=2),
    upcasters=(Upcaster("flight.departed", 1, departed_v2),),
)
