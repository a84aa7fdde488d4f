"""Two versions of a view against each other at one cut: what is equal, and where and how they differ.

Both speed halves, as they stood when they covered the same position of the log: the same events went into both. Where
the keys differ, rows are summed up to the columns that both keys have; then whole numbers and decimals can be compared,
and nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds
from deltalake import DeltaTable

from anabranch.certify.version_rows import days, differing_cells, differing_days, joined
from anabranch.core.errors import BadInput, TryAgain
from anabranch.core.settings import Settings
from anabranch.lake import Cut, commit_history
from anabranch.lake.commits import open_table
from anabranch.lake.layout import speed_table
from anabranch.views.definition import View, is_own

_COMMITS = 2_000
"""How many of its newest commits a table may be behind the other one."""


@dataclass(frozen=True, slots=True)
class ChangedCell:
    """One value that differs, of the row (or the sum) with this key."""

    partition: date | None
    key: Mapping[str, Any] = field(hash=False)
    column: str
    old: Any = field(hash=False)
    new: Any = field(hash=False)


@dataclass(frozen=True, slots=True)
class PartitionDifference:
    """How many rows (or sums) only one version has, and how many differ in each column."""

    partition: date | None
    rows: int
    only_old: int
    only_new: int
    cells: Mapping[str, int] = field(hash=False)


@dataclass(frozen=True, slots=True)
class VersionComparison:
    """``key``: the columns that rows were matched by; ``summed``: whether they had to be summed up to it. ``columns``
    were compared, ``skipped`` are in both and couldn't be; ``added`` and ``dropped`` are in one version only.
    ``changed`` were said to differ; ``partitions`` are those with any difference, ``compared`` how many there are."""

    view: str
    old: int
    new: int
    cut: Cut
    key: tuple[str, ...]
    summed: bool
    columns: tuple[str, ...]
    skipped: tuple[str, ...]
    added: tuple[str, ...]
    dropped: tuple[str, ...]
    changed: frozenset[str]
    compared: int
    partitions: tuple[PartitionDifference, ...]
    examples: tuple[ChangedCell, ...]

    @property
    def as_declared(self) -> bool:
        """Whether nothing differs but what was said to."""
        return not self.unexpected

    @property
    def unexpected(self) -> tuple[date | None, ...]:
        """The partitions that differ in more than what was said to."""
        return tuple(p.partition for p in self.partitions if p.only_old or p.only_new or set(p.cells) - self.changed)

    def to_json(self) -> dict[str, Any]:
        found = {name: value for name, value in asdict(self).items() if name not in ("cut", "changed", "partitions")}
        return {
            **found,
            "cut": str(self.cut),
            "changed": sorted(self.changed),
            "as_declared": self.as_declared,
            "partitions": [asdict(each) for each in self.partitions],
        }


def compare_versions(
    settings: Settings, old: View, new: View, changed: Collection[str] = (), partition: date | None = None
) -> VersionComparison:
    """Compare two versions of one view. ``changed``: columns whose meaning is another one in ``new``.

    BadInput COLUMNS_UNKNOWN or KEYS_UNRELATED; TryAgain NO_COMMON_CUT while one of them catches up. Reads, only.
    """
    cut, tables = _at_one_cut(settings, old, new)
    schemas = [pa.schema(table.schema().to_arrow()) for table in tables]
    own = [[name for name in schema.names if is_own(name)] for schema in schemas]
    both = [name for name in own[0] if name in own[1]]
    same = [name for name in both if schemas[0].field(name).type == schemas[1].field(name).type]
    key = tuple(name for name in old.key if name in new.key and name in same)
    if not key:
        raise BadInput(
            "KEYS_UNRELATED",
            f"{old.name}: the keys of v{old.version} ({', '.join(old.key)}) and v{new.version} ({', '.join(new.key)}) "
            "have no column in common",
            next_step="compare them with a query of your own",
        )
    summed = set(key) != set(old.key) or set(key) != set(new.key)
    rest = [name for name in both if name not in {*old.key, *new.key}]
    columns = tuple(n for n in rest if all(_countable(s.field(n).type) for s in schemas) or (not summed and n in same))
    unknown = sorted(set(changed) - set(columns))
    if unknown:
        raise BadInput(
            "COLUMNS_UNKNOWN",
            f"{', '.join(unknown)}: not compared between v{old.version} and v{new.version} of {old.name}",
            next_step=f"compared are: {', '.join(columns)}",
            field="changed",
        )
    with joined(tables, key, columns, summed=summed, partition=partition) as rows:
        compared, found, examples = days(rows), differing_days(rows, columns), differing_cells(rows, key, columns)
    return VersionComparison(
        view=old.name,
        old=old.version,
        new=new.version,
        cut=cut,
        key=key,
        summed=summed,
        columns=columns,
        skipped=tuple(name for name in rest if name not in columns),
        added=tuple(name for name in own[1] if name not in own[0]),
        dropped=tuple(name for name in own[0] if name not in own[1]),
        changed=frozenset(changed),
        compared=compared,
        partitions=tuple(PartitionDifference(*each) for each in found),
        examples=tuple(ChangedCell(*each) for each in examples),
    )


def _at_one_cut(settings: Settings, old: View, new: View) -> tuple[Cut, list[DeltaTable]]:
    """Both speed tables at the newest position of the log that both have committed at."""
    uris = [speed_table(settings, view.name, view.version) for view in (old, new)]
    cuts: list[dict[tuple[tuple[str, int], ...], tuple[int, Cut]]] = []
    for view, uri in zip((old, new), uris, strict=True):
        table = open_table(uri)
        if table is None:
            raise BadInput("VIEW_UNKNOWN", f"{view.name} v{view.version} has no table", next_step="anabranch status")
        known: dict[tuple[tuple[str, int], ...], tuple[int, Cut]] = {}
        for committed in commit_history(table, _COMMITS):
            epochs = tuple(sorted((t, p.epoch) for t, p in committed.note.cut.positions.items()))
            if epochs:
                known.setdefault(epochs, (committed.rows_at, committed.note.cut))
        cuts.append(known)
    common = [epochs for epochs in cuts[0] if epochs in cuts[1]]
    if not common:
        at = [next(iter(known.values()))[1] if known else Cut() for known in cuts]
        raise TryAgain(
            "NO_COMMON_CUT",
            f"{old.name}: v{old.version} is at {at[0]}, v{new.version} at {at[1]}; they were never at one cut",
            next_step="wait until both have caught up (anabranch status), and compare again",
        )
    versions = [known[common[0]][0] for known in cuts]
    return cuts[0][common[0]][1], [DeltaTable(u, version=v) for u, v in zip(uris, versions, strict=True)]


def _countable(kind: pa.DataType) -> bool:
    return bool(kinds.is_integer(kind) or kinds.is_decimal(kind))
