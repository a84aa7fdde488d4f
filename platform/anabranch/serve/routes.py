"""Which share of a view's readers gets which of its versions: set by people and migrations, obeyed by every read."""

from __future__ import annotations

import contextlib
import getpass
import hashlib
import json
import socket
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from anabranch.core.clocks import Moment
from anabranch.core.errors import AnabranchError, BadInput, Conflict, TryAgain
from anabranch.core.settings import Settings
from anabranch.lake import CommitMetadata, Cut, append, create, stage_arrow
from anabranch.lake.commits import Commit, open_table
from anabranch.lake.layout import routes_table, safe_name
from anabranch.lake.optimistic import until_committed
from anabranch.serve.served_versions import newest_speed
from anabranch.serve.table_snapshots import snapshot
from anabranch.views.retired_versions import RETIRED

ACTIVE = frozenset({"moving", "halted"})
"""States of a migration that leads readers still."""
ROLLED_BACK = "rolled back"
PATIENCE = 5.0
"""Seconds that ``set_route`` waits until a version covers what the others cover, before it refuses to send readers to
it."""
_COLUMNS = pa.schema(
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
    """What a migration says of itself, when one has set this route."""
    retired: frozenset[int] = frozenset()
    """The versions that nobody gets any more, not even by their number."""
    moment: Moment | None = field(default=None, compare=False)
    """When it was set, by the machine's monotonic clock; of the newest route only."""

    def version_for(self, reader: str) -> int:
        """The version that ``reader`` gets: always the same, as long as the share of that version only grows."""
        digest = hashlib.sha256(f"{self.view}\n{reader}".encode()).digest()
        place, upper = int.from_bytes(digest[:8]) / 2**64 * 100, 0
        for version in sorted(self.shares, reverse=True):
            upper += self.shares[version]
            if place < upper:
                return version
        raise AssertionError(f"shares of {self.shares} don't make 100")

    def sends_back(self, had: int, chosen: int) -> bool:
        """Whether a reader that had version ``had`` is taken back to ``chosen``: to the old version of a migration,
        also of one that has been started again since it was rolled back, or by a person to an older one."""
        if self.migration is None:
            return chosen < had
        return (had, chosen) == (self.migration["new"], self.migration["old"])

    def __str__(self) -> str:
        return ", ".join(f"v{version} {share} %" for version, share in sorted(self.shares.items()))


@cache
def this_reader() -> str:
    """Who reads, when nobody says so: the same name for all processes of one user on one machine."""
    return f"{getpass.getuser()}@{socket.gethostname()}"


def route_of(settings: Settings, view: str) -> Route | None:
    """The newest route of ``view``; None where nobody has set one."""
    held = snapshot(routes_table(settings, view))
    return _of_commit(view, held.newest) if held and "shares" in held.newest.note.extra else None


def route_history(settings: Settings, view: str) -> list[Route]:
    """Every route that ``view`` has had, oldest first."""
    held = snapshot(routes_table(settings, safe_name(view, "view")))
    paths = held.files.get(None, ()) if held else ()
    rows = [row for path in paths for row in pq.ParquetFile(path).read().to_pylist()]
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
    """Lead readers to these versions from now on: each read that begins later obeys.

    ``shares`` are whole percent by version, 100 together; a version with 0 takes no readers. ``after`` is the number of
    the route that this one was decided upon (0: none), Conflict ROUTE_MOVED when there is another one by now. While a
    ``migration`` moves readers only a migration sets routes: Conflict MIGRATION_ACTIVE. ``retired``: the versions that
    are from now on, those of before when left out (``retirement``). BadInput SHARES_WRONG, VERSION_RETIRED,
    REASON_MISSING or VIEW_UNKNOWN; TryAgain VERSION_BEHIND (a newer version that a person sends readers to; a migration
    watches that by its own checks, and the way back is always open) or VIEW_NOT_READY: nobody was moved.
    """
    safe_name(view, "view")
    kept = _checked(view, shares)
    if not why.strip():
        raise BadInput("REASON_MISSING", f"why {view} gets another route is not said", next_step="say why", field="why")
    if migration is None:
        _check_level(settings, view, kept)
    elif migration["state"] != ROLLED_BACK and ((known := route_of(settings, view)) is None or known.shares != kept):
        for version in kept:
            newest_speed(settings, view, version)
    uri = routes_table(settings, view)
    create(uri, _COLUMNS, [], CommitMetadata(f"route/{view}", "create", Cut()))

    def attempt() -> Route:
        table, before = open_table(uri), route_of(settings, view)
        number = before.number if before else 0
        if table is None or (after is not None and after != number):
            raise Conflict(
                "ROUTE_MOVED",
                f"{view}: the route is number {number} by now ({before}), not {after}",
                state="nobody was moved by this change",
                next_step=f"anabranch routes history {view}, and decide again",
            )
        if migration is None and before and before.migration and before.migration["state"] in ACTIVE:
            raise Conflict(
                "MIGRATION_ACTIVE",
                f"{view}: a migration moves its readers ({before})",
                state="nobody was moved by this change",
                next_step=f"anabranch migrate rollback {view}, which leads them back at once",
            )
        gone = frozenset(retired if retired is not None else before.retired if before else ())
        check_not_retired(view, kept, gone)
        made = Route(view, number + 1, kept, datetime.now(UTC), by, why, migration, gone, Moment.now())
        _append(table, made)
        return made

    return until_committed(f"route/{view}", attempt)


def _append(table: DeltaTable, made: Route) -> None:
    told = {str(version): share for version, share in made.shares.items()}
    row = {"number": made.number, "changed_at": made.changed_at, "shares": json.dumps(told)}
    row |= {"changed_by": made.changed_by, "why": made.why}
    row |= {"migration": json.dumps(made.migration) if made.migration else None}
    row |= {RETIRED: json.dumps(sorted(made.retired))}
    extra: dict[str, Any] = {"shares": told, "by": made.changed_by, "why": made.why}
    extra |= {"changed_at": made.changed_at.isoformat()}
    extra |= {"migration": made.migration} if made.migration else {}
    extra |= {RETIRED: sorted(made.retired)} if made.retired else {}
    extra |= {"moment": made.moment.to_json()} if made.moment else {}
    uri = table.table_uri.removeprefix("file://")
    staged = stage_arrow(pa.Table.from_pylist([row], _COLUMNS), uri, f"route-{made.number}-{time.time_ns()}", None)
    append(table, staged, CommitMetadata(f"route/{made.view}", str(made.number), Cut(), extra=extra))


def _checked(view: str, shares: Mapping[int, int]) -> dict[int, int]:
    if not shares or min(shares.values()) < 0 or sum(shares.values()) != 100:
        said = ", ".join(f"v{version} {share}" for version, share in shares.items()) or "nothing"
        raise BadInput(
            "SHARES_WRONG",
            f"{view}: shares are whole percent, none below 0, and 100 together; these are {said}",
            state="nobody was moved",
            next_step="write 1=75 2=25, say",
            field="shares",
        )
    return {version: share for version, share in sorted(shares.items()) if share}


def check_not_retired(view: str, wanted: Collection[int], retired: Collection[int]) -> None:
    """BadInput VERSION_RETIRED when one of the ``wanted`` versions is."""
    gone = sorted(set(wanted) & set(retired))
    if gone:
        raise BadInput(
            "VERSION_RETIRED",
            f"{view} v{gone[0]} is retired",
            state="nobody gets it any more, and nothing keeps it up to date",
            next_step=f"read {view} without a version, or anabranch migrate reinstate {view} {gone[0]} --why ...",
            field="version",
        )


def _check_level(settings: Settings, view: str, shares: Mapping[int, int]) -> None:
    """A newer version that gets readers must cover what they may have seen of the others; nobody waits for the way
    back."""
    route = route_of(settings, view)
    before = dict(route.shares) if route else {oldest(settings, view): 100}
    if before == dict(shares):
        return
    cuts = {version: newest_speed(settings, view, version)[1].newest.note.cut for version in sorted(shares)}
    gaining = [version for version, share in shares.items() if share > before.get(version, 0)]
    losing = [version for version, share in before.items() if share > shares.get(version, 0)]
    wanted = [cuts[version] for version in losing if version in cuts]
    for left in (version for version in losing if version not in cuts):
        with contextlib.suppress(AnabranchError):  # what can't be read is no reason to stay with it
            wanted.append(newest_speed(settings, view, left)[1].newest.note.cut)
    forward = [version for version in gaining if version > min(losing)]
    until = time.monotonic() + PATIENCE
    while behind := [v for v in forward if not all(covers(cuts[v], seen) for seen in wanted)]:
        if time.monotonic() > until:
            raise TryAgain(
                "VERSION_BEHIND",
                f"{view} v{behind[0]} covers {cuts[behind[0]]}; readers have seen {'; '.join(map(str, wanted))}",
                state="nobody was moved",
                next_step="anabranch status shows whether its stream runs; wait until it has caught up",
            )
        time.sleep(0.1)
        cuts = {version: newest_speed(settings, view, version)[1].newest.note.cut for version in shares}


def covers(cut: Cut, seen: Cut) -> bool:
    """Whether a reader that has ``seen`` may be given ``cut``, of the topics that both versions read."""
    both = set(cut.positions) & set(seen.positions)
    return all(cut.epoch(topic) >= seen.epoch(topic) for topic in both)


def oldest(settings: Settings, view: str) -> int:
    """The version that is served without a route. BadInput VIEW_UNKNOWN, TryAgain VIEW_NOT_READY."""
    return newest_speed(settings, view, None, first=True)[0]


def share_of(settings: Settings, view: str, version: int) -> int:
    """How many percent of the readers who name no version get this one."""
    route = route_of(settings, view)
    if route is not None:
        return route.shares.get(version, 0)
    try:
        return 100 if oldest(settings, view) == version else 0
    except (BadInput, TryAgain):  # there is nothing to read yet
        return 0


def _of_commit(view: str, committed: Commit) -> Route:
    said = committed.note.extra
    moment = datetime.fromisoformat(said["changed_at"])
    number, shares = int(committed.note.batch), _shares(said["shares"])
    gone = frozenset(said.get(RETIRED, ()))
    by, why, migration = said["by"], said["why"], said.get("migration")
    return Route(view, number, shares, moment, by, why, migration, gone, Moment.from_json(said.get("moment")))


def _shares(told: Mapping[str, int]) -> dict[int, int]:
    return {int(version): share for version, share in told.items()}
