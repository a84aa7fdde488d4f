"""The contract of the events that StatsD metrics become: one event for each sample, nothing is aggregated."""

from __future__ import annotations

from typing import Final

from anabranch.contracts.model.contract import Contract

KINDS: Final = {"c": "counter", "g": "gauge", "ms": "timer", "h": "histogram", "d": "distribution"}
"""Kinds of metrics, by their letters in StatsD's lines."""
PRECISION: Final = 28
SCALE: Final = 9
"""Digits of a value behind the point; further ones are rounded. Sums of decimals are exact in both paths."""
_DECIMAL: Final = {"type": "string", "format": "decimal", "precision": PRECISION, "scale": SCALE}

METRIC: Final = Contract(
    "metric.received",
    1,
    {
        "type": "object",
        "required": ["name", "kind", "value", "relative", "sample_rate", "tags"],
        "properties": {
            "name": {"type": "string"},
            "kind": {"type": "string", "enum": [*KINDS.values()]},
            "value": {**_DECIMAL, "description": "as sent: a counter isn't divided by its sample rate"},
            "relative": {"type": "boolean", "description": "a gauge that was sent with a sign: a change"},
            "sample_rate": {**_DECIMAL, "minimum": 0, "maximum": 1},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
    },
)
"""Declare a topic of it: ``METRICS = Topic("metrics", (METRIC,))``, and set ``ANABRANCH_STATSD_TOPIC=metrics``."""
