"""Compare two versions of a view at one cut: what is equal, and where and how they differ.

Compares both speed halves at a cut that both have committed, so both were made from the same events. Where the keys
differ, rows are summed by the columns that both keys have; then only integers and decimals can be compared.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.types as kinds
from deltalake import DeltaTable

from anabranch.certify._version_rows import count_partitions, differing_cells, differing_days, join_versions
from anabranch.certify.breaking_changes import BreakingChange, breaking_columns, own_columns
from anabranch.core.errors import AnabranchError, BadInput, TryAgain
from anabranch.core.settings import Settings
from anabranch.core.storage import storage_of
from anabranch.lake import commit_history, open_table
from anabranch.lake.cut import Cut
from anabranch.lake.layout import VersionRef
from anabranch.lake.log.commit_errors import unreadable_file
from anabranch.lake.log.delta_tables import data_paths, delta_table
from anabranch.views import View
from anabranch.views.model.definition import is_own

_COMMITS = 2_000
"""How many of each table's newest commits are searched for a common cut."""


@dataclass(frozen=True, slots=True)
class ChangedCell:
    """One value that differs, in the row (or sum) with this key."""

    partition: date | None
    key: Mapping[str, Any] = field(hash=False)
    column: str
    old: Any = field(hash=False)
    new: Any = field(hash=False)


@dataclass(frozen=True, slots=True)
class PartitionDifference:
    """How many rows (or sums) only one version has, and how many differ per column."""

    partition: date | None
    rows: int
    only_old: int
    only_new: int
    cells: Mapping[str, int] = field(hash=False)


@dataclass(frozen=True, slots=True)
class VersionComparison:
    """The result of a comparison.

    ``key``: the columns that rows were matched by. ``summed``: whether rows were summed by it. ``columns`` were
    compared; ``skipped`` are in both versions but can't be compared; ``added`` and ``dropped`` are in one version only.
    ``changed``: columns that the author declared to differ. ``partitions``: those with any difference. ``compared``:
    how many partitions were compared. ``breaking``: columns that are removed, or whose type doesn't hold every value of
    the old one.
    """

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
    breaking: tuple[BreakingChange, ...] = ()

    @property
    def as_declared(self) -> bool:
        """Whether only declared columns differ, are removed, or have a narrower type."""
        return not self.unexpected and not self.undeclared

    @property
    def undeclared(self) -> tuple[BreakingChange, ...]:
        """The breaking changes that the author hasn't declared."""
        return tuple(each for each in self.breaking if each.column not in self.changed)

    @property
    def unexpected(self) -> tuple[date | None, ...]:
        """The partitions that differ in more than the declared columns."""
        return tuple(p.partition for p in self.partitions if p.only_old or p.only_new or set(p.cells) - self.changed)

    def to_json(self) -> dict[str, Any]:
        plain = {name: value for name, value in asdict(self).items() if name not in ("cut", "changed", "partitions")}
        return {
            **plain,
            "cut": str(self.cut),
            "changed": sorted(self.changed),
            "as_declared": self.as_declared,
            "partitions": [asdict(each) for each in self.partitions],
        }


def compare_versions(
    settings: Settings, old: View, new: View, changed: Collection[str] = (), partition: date | None = None
) -> VersionComparison:
    """Compare two versions of one view. ``changed``: columns that ``new`` defines differently or removes. Read-only.

    Raises BadInput COLUMNS_UNKNOWN or KEYS_UNRELATED; TryAgain NO_COMMON_CUT while one version catches up, or
    READING_EXPIRED if maintenance has deleted a file; BrokenState FILE_UNREADABLE.
    """
    cut, tables = _at_one_cut(settings, old, new)
    schemas = [pa.schema(table.schema().to_arrow()) for table in tables]
    own = [[name for name in schema.names if is_own(name)] for schema in schemas]
    both = [name for name in own[0] if name in own[1]]
    same_type = [name for name in both if schemas[0].field(name).type == schemas[1].field(name).type]
    key = tuple(name for name in old.key if name in new.key and name in same_type)
    if not key:
        raise BadInput(
            "KEYS_UNRELATED",
            f"{old.name}: the keys of v{old.version} ({', '.join(old.key)}) and v{new.version} ({', '.join(new.key)}) "
            "have no column in common",
            next_step="compare them with your own query",
        )
    summed = set(key) != set(old.key) or set(key) != set(new.key)
    rest = [name for name in both if name not in {*old.key, *new.key}]
    numbers = [name for name in rest if all(_is_exact_number(schema.field(name).type) for schema in schemas)]
    columns = tuple(name for name in rest if name in numbers or (not summed and name in same_type))
    breaking = breaking_columns(*map(own_columns, schemas))
    declarable = [*columns, *(each.column for each in breaking if each.column not in columns)]
    unknown = sorted(set(changed) - set(declarable))
    if unknown:
        raise BadInput(
            "COLUMNS_UNKNOWN",
            f"{', '.join(unknown)}: can't be compared between v{old.version} and v{new.version} of {old.name}",
            next_step=f"columns that can be declared: {', '.join(declarable)}",
            field="changed",
        )
    try:
        with join_versions(tables, key, columns, summed=summed, partition=partition) as rows:
            compared, differing = count_partitions(rows), differing_days(rows, columns)
            examples = differing_cells(rows, key, columns)
    except (duckdb.OutOfMemoryException, duckdb.OutOfRangeException):
        raise
    except (OSError, duckdb.Error) as error:
        raise _unreadable(f"{old.name} v{old.version} or v{new.version} at {cut}", tables, error) from error
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
        partitions=tuple(PartitionDifference(*each) for each in differing),
        examples=tuple(ChangedCell(*each) for each in examples),
        breaking=breaking,
    )


_At = tuple[tuple[tuple[str, int], ...], int]
"""The epochs by topic of a commit, and its watermark (ms) if rows appear only when that has passed their events: a
micro-batch without events, which moves the watermark alone, has the cut of the one before."""


def _unreadable(where: str, tables: Sequence[DeltaTable], error: Exception) -> AnabranchError:
    if all(storage_of(file).exists(file) for table in tables for file in data_paths(table)):
        return unreadable_file(where, error)
    return TryAgain(
        "READING_EXPIRED",
        f"a file of {where} was deleted",
        state="maintenance deletes old files after a while, and their newest cut in common is older",
        next_step="wait until both have caught up (anabranch status), and compare again",
    )


def _at_one_cut(settings: Settings, old: View, new: View) -> tuple[Cut, list[DeltaTable]]:
    """Open both speed tables at the newest cut that both have committed."""
    uris = [VersionRef(settings, view.name, view.version).speed_table for view in (old, new)]
    cuts: list[dict[_At, tuple[int, Cut]]] = []
    closed = old.closed_only and new.closed_only
    for view, uri in zip((old, new), uris, strict=True):
        table = open_table(uri)
        if table is None:
            raise BadInput("VIEW_UNKNOWN", f"{view.name} v{view.version} has no table", next_step="anabranch status")
        known: dict[_At, tuple[int, Cut]] = {}
        for commit in commit_history(table, _COMMITS):
            epochs = tuple(sorted((t, p.epoch) for t, p in commit.note.cut.positions.items()))
            if epochs:
                watermark = int(commit.note.extra.get("watermark_ms") or 0) if closed else 0
                known.setdefault((epochs, watermark), (commit.rows_at, commit.note.cut))
        cuts.append(known)
    common = [at for at in cuts[0] if at in cuts[1]]
    if not common:
        at = [next(iter(known.values()))[1] if known else Cut() for known in cuts]
        raise TryAgain(
            "NO_COMMON_CUT",
            f"{old.name}: v{old.version} is at {at[0]}, v{new.version} at {at[1]}; they have no cut in common",
            next_step="wait until both have caught up (anabranch status), and compare again",
        )
    versions = [known[common[0]][0] for known in cuts]
    return cuts[0][common[0]][1], [delta_table(u, v) for u, v in zip(uris, versions, strict=True)]


def _is_exact_number(kind: pa.DataType) -> bool:
    return bool(kinds.is_integer(kind) or kinds.is_decimal(kind))
