"""What readers must see at a cut, computed from the rows of landing up to it, without any view.

Rows are compared by three numbers that add up over them: how many movements they hold, their total, and a checksum that
weights each row by its account and hour. So the truth at an epoch is a running sum over landing.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from anabranch.core.settings import Settings
from anabranch.ingest.landing.table.schema import VALID
from anabranch.lake.layout import landing_table
from deltalake import DeltaTable
from faults.bank.customers import TOPIC

Numbers = npt.NDArray[Any]
_HOUR = 3_600_000_000
_COLUMNS = ["epoch", "type", "decision", "late", "event_id", "event_time", "account_opened", "transfer_made"]


@dataclass(frozen=True, slots=True)
class Facts:
    """Sums over rows of a view. The checksum distinguishes rows that have the same total."""

    movements: int = 0
    total: int = 0
    checksum: int = 0

    @classmethod
    def of(cls, account: Numbers, hour: Numbers, amount: Numbers, movements: Numbers) -> Self:
        sums = _checksums(account, hour, amount, movements)
        return cls(int(movements.sum()), int(amount.sum()), int(sums.sum()))


def _checksums(account: Numbers, hour: Numbers, amount: Numbers, movements: Numbers) -> Numbers:
    """Of each row, modulo 2**64: linear in the amount and in the movements."""
    weight = account.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + hour.astype(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # splitmix64
        weight = (weight ^ (weight >> np.uint64(shift))) * np.uint64(factor)
    return weight * amount.astype(np.uint64) + (weight >> np.uint64(31)) * movements.astype(np.uint64)


def facts_of(rows: pa.Table) -> Facts:
    """Of a table of balances."""
    account, amount, movements = (_numbers(rows, name) for name in ("account", "amount", "movements"))
    return Facts.of(account, np.zeros_like(account), amount, movements)


def facts_by_day(rows: pa.Table) -> dict[date, Facts]:
    """Of a table of flows."""
    account, amount, movements = (_numbers(rows, name) for name in ("account", "amount", "movements"))
    hour = _hours(rows["hour"])
    found = {}
    for day in np.unique(hour // 24):
        inside = hour // 24 == day
        found[_date(day)] = Facts.of(account[inside], hour[inside], amount[inside], movements[inside])
    return found


def _numbers(rows: pa.Table, name: str) -> Numbers:
    return np.asarray(rows[name].cast(pa.int64()).to_numpy())


def _hours(times: pa.ChunkedArray) -> Numbers:
    return np.asarray(times.cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy()) // _HOUR


def _date(day: int) -> date:
    return date(1970, 1, 1) + timedelta(days=int(day))


class _Sums:
    """Running sums of movements over the epochs."""

    def __init__(self, epoch: Numbers, account: Numbers, hour: Numbers, amount: Numbers) -> None:
        order, ones = np.argsort(epoch, kind="stable"), np.ones_like(amount)
        self._epochs = epoch[order]
        self._amounts = np.cumsum(amount[order])
        self._checksums = np.cumsum(_checksums(account, hour, amount, ones)[order])

    def at(self, epoch: int) -> Facts:
        count = int(np.searchsorted(self._epochs, epoch, side="right"))
        if count == 0:
            return Facts()
        return Facts(count, int(self._amounts[count - 1]), int(self._checksums[count - 1]))


@dataclass(frozen=True)
class Truth:
    """``paid_in``: the opening balances. Of a day there are all movements, and those that weren't late."""

    ids: list[str]
    paid_in: _Sums
    balances: _Sums
    every: Mapping[date, _Sums]
    on_time: Mapping[date, _Sums]

    def days(self, epoch: int) -> Set[date]:
        """Those that a view of on-time events has rows of."""
        return {day for day, sums in self.on_time.items() if sums.at(epoch).movements}


def truth_of(settings: Settings) -> Truth:
    rows = DeltaTable(landing_table(settings, TOPIC)).to_pyarrow_table(columns=_COLUMNS)
    rows = rows.filter(pc.equal(rows["decision"], VALID))
    opened, made = (rows.filter(pc.equal(rows["type"], kind)) for kind in ("account.opened", "transfer.made"))
    begun = {
        "epoch": _numbers(opened, "epoch"),
        "account": _field(opened, "account_opened", "account"),
        "amount": _field(opened, "account_opened", "balance"),
    }
    moved, hour, late = _movements(made)
    both = {name: np.concatenate([begun[name], moved[name]]) for name in begun}
    days = {_date(day): hour // 24 == day for day in np.unique(hour // 24)}
    return Truth(
        ids=rows["event_id"].to_pylist(),
        paid_in=_sums(begun, np.zeros_like(begun["epoch"])),
        balances=_sums(both, np.zeros_like(both["epoch"])),
        every={day: _sums(moved, hour, inside) for day, inside in days.items()},
        on_time={day: _sums(moved, hour, inside & ~late) for day, inside in days.items()},
    )


def _movements(made: pa.Table) -> tuple[dict[str, Numbers], Numbers, Numbers]:
    """Each transfer as two movements; their hours, and which of them were late."""
    amount = _field(made, "transfer_made", "amount")
    accounts = [_field(made, "transfer_made", name) for name in ("from", "to")]
    moved = {
        "epoch": np.tile(_numbers(made, "epoch"), 2),
        "account": np.concatenate(accounts),
        "amount": np.concatenate([-amount, amount]),
    }
    late = np.asarray(made["late"].to_numpy(), dtype=bool)
    return moved, np.tile(_hours(made["event_time"]), 2), np.tile(late, 2)


def _sums(moved: Mapping[str, Numbers], hour: Numbers, inside: Numbers | slice = slice(None)) -> _Sums:
    epoch, account, amount = (moved[name][inside] for name in ("epoch", "account", "amount"))
    return _Sums(epoch, account, hour[inside], amount)


def _field(rows: pa.Table, column: str, name: str) -> Numbers:
    return np.asarray(pc.struct_field(rows[column], name).cast(pa.int64()).to_numpy())
