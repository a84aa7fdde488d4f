"""Routes: which share of a view's readers gets which version. Set by people and migrations, followed by every read."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from anabranch.core.clocks import Moment
from anabranch.core.errors import AnabranchError, BadInput, Conflict, TryAgain
from anabranch.core.settings import Settings
from anabranch.lake import Commit, CommitMetadata, open_table
from anabranch.lake.commits import append, create
from anabranch.lake.cut import Cut
from anabranch.lake.files import parquet_file, stage_arrow
from anabranch.lake.layout import VersionRef, routes_table, safe_name
from anabranch.lake.log.commit_errors import unreadable_file
from anabranch.lake.log.delta_tables import folder_of
from anabranch.lake.optimistic import until_committed
from anabranch.serve._reader_places import Places, first_places, from_runs, next_places, percent_of, to_runs
from anabranch.serve.served_versions import newest_speed
from anabranch.serve.table_snapshots import snapshot
from anabranch.views.retired_versions import RETIRED

ACTIVE = frozenset({"moving", "halted"})
"""States of a migration that still controls the route."""
ROLLED_BACK = "rolled back"
_PLACES = "places"
"""Where a route's metadata has its ``places``. An older version of this package ignores them: with more than two
versions, its readers then have other ones of the same shares."""
PATIENCE = 5.0
"""How many seconds ``set_route`` waits for a version to cover what the others cover, before it raises
VERSION_BEHIND."""
COLUMNS = pa.schema(
    [
        ("number", pa.int64()),
        ("changed_at", pa.timestamp("us", "UTC")),
        ("shares", pa.string()),
        ("changed_by", pa.string()),
        ("why", pa.string()),
        ("migration", pa.string()),
        (RETIRED, pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Route:
    """The versions of one view by their share in percent. ``number`` counts the changes, from 1."""

    view: str
    number: int
    shares: Mapping[int, int] = field(hash=False)
    changed_at: datetime
    changed_by: str
    why: str
    migration: Mapping[str, Any] | None = field(default=None, hash=False)
    """The record of the migration that set this route, if one did."""
    retired: frozenset[int] = frozenset()
    """The versions that can't be read any more, not even by their number."""
    moment: Moment | None = field(default=None, compare=False)
    """When it was set, by the machine's monotonic clock; only for the newest route."""
    places: Places | None = field(default=None, compare=False)
    """Which readers have which version, if it isn't as in a first route; only for the newest route."""

    def version_for(self, reader: str) -> int:
        """Return the version that ``reader`` gets. Sticky: it doesn't change while that version's share only grows."""
        return self.all_places[percent_of(self.view, reader)]

    @property
    def all_places(self) -> Places:
        """The version of each percent of the readers."""
        return first_places(self.shares) if self.places is None else self.places

    def sends_back(self, had: int, chosen: int) -> bool:
        """Whether moving a reader from version ``had`` to ``chosen`` is a rollback: to the old version of a migration
        (also of one that was started again after its rollback), or, set by a person, to an older version."""
        if self.migration is None:
            return chosen < had
        return (had, chosen) == (self.migration["new"], self.migration["old"])

    def __str__(self) -> str:
        return ", ".join(f"v{version} {share} %" for version, share in sorted(self.shares.items()))


def route_of(settings: Settings, view: str) -> Route | None:
    """Return the newest route of ``view``; None if none was set."""
    table = snapshot(routes_table(settings, view))
    return _of_commit(view, table.newest) if table and "shares" in table.newest.note.extra else None


def route_history(settings: Settings, view: str) -> list[Route]:
    """Return every route that ``view`` has had, oldest first. Raises BrokenState FILE_UNREADABLE."""
    table = snapshot(routes_table(settings, safe_name(view, "view")))
    paths = table.files.get(None, ()) if table else ()
    rows = list[dict[str, Any]]()
    for path in paths:
        try:
            with parquet_file(Path(path)) as file:
                rows += file.read().to_pylist()
        except (OSError, pa.ArrowInvalid) as error:
            raise unreadable_file(path, error) from error
    return [
        Route(
            view,
            row["number"],
            _shares(json.loads(row["shares"])),
            row["changed_at"],
            row["changed_by"],
            row["why"],
            json.loads(row["migration"]) if row["migration"] else None,
            frozenset(json.loads(row.get(RETIRED) or "[]")),
        )
        for row in sorted(rows, key=lambda row: row["number"])
    ]


def set_route(
    settings: Settings,
    view: str,
    shares: Mapping[int, int],
    *,
    by: str,
    why: str,
    after: int | None = None,
    migration: Mapping[str, Any] | None = None,
    retired: Collection[int] | None = None,
) -> Route:
    """Set the view's route. Every read that begins later follows it.

    ``shares``: whole percent by version, 100 in total; a version with 0 gets no readers. ``after``: compare-and-set on
    the number of the route that the caller has seen (0: none). ``migration``: the record of the migration that sets the
    route. ``retired``: the retired versions from now on; unchanged if omitted (``retirement``).

    Raises Conflict ROUTE_MOVED when there is a newer route than ``after``; Conflict MIGRATION_ACTIVE when a migration
    is moving readers and a person sets the route; BadInput SHARES_WRONG, VERSION_RETIRED, REASON_MISSING or
    VIEW_UNKNOWN; TryAgain VIEW_NOT_READY, or VERSION_BEHIND when a person sends readers to a newer version that is
    behind (a migration checks that itself, and a rollback is always allowed). In each case no reader was moved.
    """
    safe_name(view, "view")
    wanted = _checked_shares(view, shares)
    if not why.strip():
        raise BadInput(
            "REASON_MISSING", f"the new route of {view} has no reason", next_step="give a reason", field="why"
        )
    if migration is None:
        _check_not_behind(settings, view, wanted)
    elif migration["state"] != ROLLED_BACK and ((known := route_of(settings, view)) is None or known.shares != wanted):
        for version in wanted:
            newest_speed(settings, view, version)
    uri = routes_table(settings, view)
    create(uri, COLUMNS, [], CommitMetadata(f"route/{view}", "create", Cut()))

    def attempt() -> Route:
        table, before = open_table(uri), route_of(settings, view)
        number = before.number if before else 0
        if table is None or (after is not None and after != number):
            raise Conflict(
                "ROUTE_MOVED",
                f"{view}: the newest route is number {number} ({before}), not {after}",
                state="no reader was moved by this change",
                next_step=f"look at anabranch routes history {view}, and decide again",
            )
        if migration is None and before and before.migration and before.migration["state"] in ACTIVE:
            raise Conflict(
                "MIGRATION_ACTIVE",
                f"{view}: a migration is moving its readers ({before})",
                state="no reader was moved by this change",
                next_step=f"anabranch migrate rollback {view} moves them back at once",
            )
        now_retired = frozenset(retired if retired is not None else before.retired if before else ())
        check_not_retired(view, wanted, now_retired)
        places = next_places(before.all_places, wanted) if before else None
        moment = Moment.now()
        route = Route(view, number + 1, wanted, datetime.now(UTC), by, why, migration, now_retired, moment, places)
        _append(table, route)
        return route

    return until_committed(f"route/{view}", attempt)


def _append(table: DeltaTable, route: Route) -> None:
    shares = {str(version): share for version, share in route.shares.items()}
    row = {"number": route.number, "changed_at": route.changed_at, "shares": json.dumps(shares)}
    row |= {"changed_by": route.changed_by, "why": route.why}
    row |= {"migration": json.dumps(route.migration) if route.migration else None}
    row |= {RETIRED: json.dumps(sorted(route.retired))}
    extra: dict[str, Any] = {"shares": shares, "by": route.changed_by, "why": route.why}
    extra |= {"changed_at": route.changed_at.isoformat()}
    extra |= {"migration": route.migration} if route.migration else {}
    extra |= {RETIRED: sorted(route.retired)} if route.retired else {}
    extra |= {"moment": route.moment.to_json()} if route.moment else {}
    extra |= {_PLACES: to_runs(route.all_places)} if route.all_places != first_places(route.shares) else {}
    uri = str(folder_of(table))
    staged = stage_arrow(pa.Table.from_pylist([row], COLUMNS), uri, f"route-{route.number}-{time.time_ns()}", None)
    append(table, staged, CommitMetadata(f"route/{route.view}", str(route.number), Cut(), extra=extra))


def _checked_shares(view: str, shares: Mapping[int, int]) -> dict[int, int]:
    if not shares or min(shares.values()) < 0 or sum(shares.values()) != 100:
        given = ", ".join(f"v{version} {share}" for version, share in shares.items()) or "none"
        raise BadInput(
            "SHARES_WRONG",
            f"{view}: shares are whole percent, not negative, and add up to 100; given: {given}",
            state="no reader was moved",
            next_step="write for example 1=75 2=25",
            field="shares",
        )
    return {version: share for version, share in sorted(shares.items()) if share}


def check_not_retired(view: str, wanted: Collection[int], retired: Collection[int]) -> None:
    """Raise BadInput VERSION_RETIRED if one of the ``wanted`` versions is retired."""
    refused = sorted(set(wanted) & set(retired))
    if refused:
        raise BadInput(
            "VERSION_RETIRED",
            f"{view} v{refused[0]} is retired",
            state="it can't be read any more, and nothing keeps it up to date",
            next_step=f"read {view} without a version, or anabranch migrate reinstate {view} {refused[0]} --why ...",
            field="version",
        )


def _check_not_behind(settings: Settings, view: str, shares: Mapping[int, int]) -> None:
    """Wait until each newer version that gets readers covers what they may have seen of the others; raise TryAgain
    VERSION_BEHIND after PATIENCE. Moving readers back to an older version is not checked."""
    route = route_of(settings, view)
    before = dict(route.shares) if route else {oldest_version(settings, view): 100}
    if before == dict(shares):
        return
    cuts = {version: newest_speed(settings, view, version)[1].newest.note.cut for version in sorted(shares)}
    gaining = [version for version, share in shares.items() if share > before.get(version, 0)]
    losing = [version for version, share in before.items() if share > shares.get(version, 0)]
    wanted = [cuts[version] for version in losing if version in cuts]
    for left in (version for version in losing if version not in cuts):
        with contextlib.suppress(AnabranchError):  # a version that can't be read must not keep its readers
            wanted.append(newest_speed(settings, view, left)[1].newest.note.cut)
    forward = [version for version in gaining if version > min(losing)]
    until = time.monotonic() + PATIENCE
    while behind := [v for v in forward if not all(covers(cuts[v], seen) for seen in wanted)]:
        if time.monotonic() > until:
            raise TryAgain(
                "VERSION_BEHIND",
                f"{view} v{behind[0]} covers {cuts[behind[0]]}, but readers have seen {'; '.join(map(str, wanted))}",
                state="no reader was moved",
                next_step="wait until it has caught up; anabranch status shows whether its stream runs",
            )
        time.sleep(0.1)
        cuts = {version: newest_speed(settings, view, version)[1].newest.note.cut for version in shares}


def covers(cut: Cut, seen: Cut) -> bool:
    """Whether ``cut`` covers ``seen``, in the topics that both versions read."""
    both = set(cut.positions) & set(seen.positions)
    return all(cut.epoch(topic) >= seen.epoch(topic) for topic in both)


def oldest_version(settings: Settings, view: str) -> int:
    """Return the version that is served without a route. Raises BadInput VIEW_UNKNOWN, TryAgain VIEW_NOT_READY."""
    return newest_speed(settings, view, None, first=True)[0]


def share_of(ref: VersionRef) -> int:
    """Return the percentage of readers that get this version, among those that name no version."""
    route = route_of(ref.settings, ref.name)
    if route is not None:
        return route.shares.get(ref.version, 0)
    try:
        return 100 if oldest_version(ref.settings, ref.name) == ref.version else 0
    except (BadInput, TryAgain):  # there is nothing to read yet
        return 0


def _of_commit(view: str, commit: Commit) -> Route:
    extra = commit.note.extra
    changed_at = datetime.fromisoformat(extra["changed_at"])
    number, shares = int(commit.note.batch), _shares(extra["shares"])
    retired = frozenset(extra.get(RETIRED, ()))
    by, why, migration = extra["by"], extra["why"], extra.get("migration")
    moment = Moment.from_json(extra.get("moment"))
    places = from_runs(extra[_PLACES]) if _PLACES in extra else None
    return Route(view, number, shares, changed_at, by, why, migration, retired, moment, places)


def _shares(stored: Mapping[str, int]) -> dict[int, int]:
    return {int(version): share for version, share in stored.items()}
