"""Injects faults, deterministic by seed: the same events, rates and seed give the same records.

An event gets at most one fault. ``duplicate``, ``conflict`` and ``malformed`` are additional records after the good
one. ``broken_contract`` and ``absurd_time`` replace the good event (its producer was broken); a release from quarantine
may restore it. ``wrong_clock`` and ``days_late`` are valid events with a wrong clock or a late arrival.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import timedelta

import numpy as np
import polars as pl
from anabranch.core.errors import BadInput

from anabranch_samples import _bad_bytes
from anabranch_samples._rendering import render

KINDS = ("duplicate", "conflict", "malformed", "broken_contract", "absurd_time", "wrong_clock", "days_late")
_DAY = 86_400


@dataclass(frozen=True, slots=True)
class Faults:
    """The share of events, 0 to 1, with each fault. Raises BadInput FAULT_RATE with the name of the option."""

    duplicates: float = 0.0
    conflicts: float = 0.0
    malformed: float = 0.0
    broken_contracts: float = 0.0
    absurd_times: float = 0.0
    wrong_clocks: float = 0.0
    days_late: float = 0.0

    def __post_init__(self) -> None:
        for name, rate in asdict(self).items():
            if not (math.isfinite(rate) and 0 <= rate <= 1):
                raise _bad_rate("--" + name.replace("_", "-"), f"{rate} is not a share between 0 and 1")
        if sum(asdict(self).values()) > 1:
            raise _bad_rate("the faults", "the shares add up to more than 1, but an event has at most one fault")

    @property
    def any(self) -> bool:
        return any(asdict(self).values())


SMALL = Faults(0.005, 0.001, 0.001, 0.001, 0.0005, 0.002, 0.001)
"""The faults of ``--faults``."""


def inject(events: pl.DataFrame, faults: Faults, seed: int) -> pl.DataFrame:
    """Returns the events with faults, in publish order. ``fault`` is each one's kind."""
    if not faults.any:
        return events
    rng = np.random.default_rng(seed)
    thresholds = np.cumsum(list(asdict(faults).values()))
    kind = np.searchsorted(thresholds, rng.random(events.height), side="right")
    parts = [events.filter(kind == len(KINDS))]
    for number, name in enumerate(KINDS):
        hit = events.filter(kind == number)
        if hit.is_empty():
            continue
        if name in ("duplicate", "conflict", "malformed"):
            parts.append(hit)
        parts.append(_MAKERS[name](hit, rng).with_columns(pl.lit(name).alias("fault")).select(events.columns))
    return pl.concat(parts).sort("publish_time", maintain_order=True)


def _seconds(rng: np.random.Generator, count: int, low: int, high: int) -> pl.Series:
    return pl.Series(rng.integers(low, high, count) * 1_000_000).cast(pl.Duration("us"))


def _again(hit: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """The same bytes again, up to a day later: a producer that never got the acknowledgement."""
    return hit.with_columns(pl.col("publish_time") + _seconds(rng, hit.height, 1, _DAY))


def _other_payload(hit: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    data = [_bad_bytes.other_payload(text) for text in hit["data"]]
    return _again(hit, rng).with_columns(pl.Series("data", data, pl.String))


def _malformed(hit: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Noise between the events; some of it without a key. What has no value has none: else it were a tombstone."""
    values = [_bad_bytes.malformed(value, rng) for value in render(hit)["value"]]
    again = _again(hit, rng)
    keyed = (rng.random(hit.height) < 0.5) & np.array([value is not None for value in values], np.bool_)
    return again.with_columns(
        pl.Series("value", values, pl.Binary),
        pl.lit(None, pl.String).alias("event_type"),
        pl.when(pl.Series(keyed)).then("key").alias("key"),
    )


def _rewritten(change: Callable[[bytes, np.random.Generator], bytes]) -> Callable[..., pl.DataFrame]:
    def make(hit: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
        values = [change(value, rng) for value in render(hit)["value"]]
        return hit.with_columns(pl.Series("value", values, pl.Binary))

    return make


def _wrong_clock(hit: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """A device whose clock is wrong by hours or days: ``time`` and ``senttime`` are wrong by the same amount, the
    server's ``receivedtime`` is right, so the corrected event time is the true one."""
    sign = pl.Series(rng.choice([-1, 1], hit.height))
    off = (_seconds(rng, hit.height, 3600, 5 * _DAY).cast(pl.Int64) * sign).cast(pl.Duration("us"))
    return hit.with_columns(pl.col("time") + off, (pl.col("receivedtime") + off).alias("senttime"))


def _days_late(hit: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """One to five days late, also at the first server."""
    published = hit["publish_time"] + timedelta(days=1) + _seconds(rng, hit.height, 0, 4 * _DAY)
    return hit.with_columns(published, published.alias("receivedtime"))


_MAKERS: dict[str, Callable[[pl.DataFrame, np.random.Generator], pl.DataFrame]] = {
    "duplicate": _again,
    "conflict": _other_payload,
    "malformed": _malformed,
    "broken_contract": _rewritten(_bad_bytes.broken_contract),
    "absurd_time": _rewritten(_bad_bytes.absurd_time),
    "wrong_clock": _wrong_clock,
    "days_late": _days_late,
}


def _bad_rate(switch: str, what: str) -> BadInput:
    return BadInput("FAULT_RATE", f"{switch}: {what}", next_step=f"give {switch} a share like 0.01", parameter=switch)
