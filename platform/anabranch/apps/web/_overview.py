"""The status of each version of each view: cut, lag, share of readers, certificates."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TypeVar

from anabranch.apps.web._certificate_cache import CertificateSummaries, newest_summaries
from anabranch.apps.web._dirty_days import DirtyStatus, Key, Lookup, Reference
from anabranch.apps.web._failures import Failure, attempt
from anabranch.apps.web._known_views import KnownView, known_views
from anabranch.apps.web._lag import Lag, Landing
from anabranch.change.replay.state import PUBLISHED, ReplayState, list_states
from anabranch.compute.speed.status import ViewStatus, progress_file, read
from anabranch.core.errors import AnabranchError
from anabranch.core.settings import Settings
from anabranch.lake.cut import Cut
from anabranch.lake.layout import VersionRef
from anabranch.serve.routes import Route, route_of
from anabranch.serve.table_snapshots import Snapshot, snapshot
from anabranch.views.model.definition import PARTITION_DATE

T = TypeVar("T")
_SILENT_SECONDS = 30.0
"""Seconds without a status file update after which the speed process counts as silent: it writes one each second."""


@dataclass(frozen=True, slots=True)
class VersionStatus:
    """One version of a view. ``share``: percent of the view's readers. ``certified``: partitions with a certificate;
    ``equal``: how many of their newest ones are equal; ``newest``: time of the newest one. ``replayed``: where no
    certificate is stored, the newest replay that was published: it certifies a view without partitions. ``wanted``: the
    state that the dirty days must refer to in order to be current. ``failed``: what couldn't be read."""

    view: str
    version: int
    declared: bool
    cut: Cut | None = None
    committed: datetime | None = None
    behind: Lag = field(default_factory=Lag)
    kappa: bool = False
    published: int = 0
    equal: int = 0
    certified: int = 0
    newest: datetime | None = None
    replayed: ReplayState | None = None
    share: int = 0
    stream: ViewStatus | None = None
    retired: bool = False
    wanted: Reference = ("", 0)
    dirty: DirtyStatus | None = None
    failed: Failure | None = None

    @property
    def days_differ(self) -> bool:
        """Whether its halves may differ in their events per day, so that dirty days must be looked up."""
        return self.covers and not self.kappa and not self.retired

    @property
    def gone(self) -> bool:
        """Whether it is retired, and its tables are deleted."""
        return self.retired and self.cut is None and self.failed is None

    @property
    def covers(self) -> bool:
        return self.cut is not None and any(position.epoch for position in self.cut.positions.values())


@dataclass(frozen=True, slots=True)
class ViewOverview:
    """A view and its versions: what most readers have, then the newest first. ``failed``: its route can't be read."""

    known: KnownView
    versions: tuple[VersionStatus, ...] = ()
    route: Route | None = None
    failed: Failure | None = None

    @property
    def doc(self) -> str:
        """The description of the version that most readers have; of the newest one if that isn't declared any more."""
        declared = self.known.declared
        named = [declared[each.version] for each in self.versions if each.version in declared]
        return named[0].doc if named else ""

    @property
    def migration(self) -> str:
        """The state of the migration in its newest route; "" if there is none."""
        said = self.route.migration if self.route else None
        return str(said.get("state", "")) if said else ""


@dataclass(frozen=True, slots=True)
class Overview:
    """All views. ``failures``: what couldn't be read of the data that they share."""

    views: tuple[ViewOverview, ...]
    streams: Streams
    failures: tuple[Failure, ...]

    @property
    def pending(self) -> bool:
        return any(each.dirty and each.dirty.pending for view in self.views for each in view.versions)


@dataclass(frozen=True, slots=True)
class Streams:
    """The last status of the speed process. ``silent``: seconds since then if that is too long; None if all is well or
    it never ran."""

    views: Mapping[Key, ViewStatus] = field(default_factory=dict, hash=False)
    silent: float | None = None

    @property
    def failed(self) -> list[ViewStatus]:
        return [each for each in self.views.values() if each.state in ("failed", "unread")]


def overview(settings: Settings, lookup: Lookup) -> Overview:
    """Returns the status of every view. What can't be read is reported as a failure."""
    look = StatusReader(settings)
    views = tuple(look.view(known) for known in known_views(settings).values())
    return Overview(with_dirty(settings, lookup, views), look.streams, tuple(look.failures))


def with_dirty(settings: Settings, lookup: Lookup, views: tuple[ViewOverview, ...]) -> tuple[ViewOverview, ...]:
    """Adds the known dirty days, and starts the lookup of the missing ones."""
    candidates = [each for view in views for each in view.versions if each.days_differ]
    wanted = {(each.view, each.version): each.wanted for each in candidates}
    dirty = lookup.ask(settings, wanted)

    def versions_of(view: ViewOverview) -> tuple[VersionStatus, ...]:
        return tuple(replace(each, dirty=dirty.get((each.view, each.version))) for each in view.versions)

    return tuple(replace(view, versions=versions_of(view)) for view in views)


class StatusReader:
    """Reads the status of views at one moment. Data that views share is read once."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._landing = Landing(settings)
        self.failures: list[Failure] = []
        self.marks: Mapping[Key, CertificateSummaries] = (
            self._read_shared("certificates", lambda: newest_summaries(settings)) or {}
        )
        self.streams: Streams = self._read_shared("streams", lambda: _streams(settings)) or Streams()

    def view(self, known: KnownView) -> ViewOverview:
        route = attempt(f"route of {known.name}", lambda: route_of(self._settings, known.name))
        versions = tuple(self._version(known, version) for version in known.versions)
        if isinstance(route, Failure):
            return ViewOverview(known, versions, failed=route)
        left = (each for each in _with_shares(versions, route) if not each.gone)
        ordered = sorted(left, key=lambda each: (-each.share, each.retired, -each.version))
        return ViewOverview(known, tuple(ordered), route)

    def _version(self, known: KnownView, version: int) -> VersionStatus:
        stream = self.streams.views.get((known.name, version))
        base = VersionStatus(known.name, version, version in known.declared, stream=stream)
        status = attempt(f"{known.name} v{version}", lambda: self._status(base))
        return replace(base, failed=status) if isinstance(status, Failure) else status

    def _status(self, base: VersionStatus) -> VersionStatus:
        ref = VersionRef(self._settings, base.view, base.version)
        speed = snapshot(ref.speed_table)
        if speed is None:
            return base
        marks = self.marks.get((base.view, base.version), {})
        found = replace(
            base,
            cut=speed.newest.note.cut,
            committed=_moment(speed),
            behind=self._landing.behind(speed.newest.note.cut),
            kappa=PARTITION_DATE not in speed.schema.names,
            equal=sum(mark.equal for mark in marks.values()),
            certified=len(marks),
            newest=max((mark.created for mark in marks.values()), default=None),
            replayed=None if marks else _published_replay(ref),
        )
        batch = None if found.kappa else snapshot(ref.batch_table)
        wanted = self._landing.position(speed.newest.note.cut), batch.version if batch is not None else -1
        published = len(batch.published) if batch is not None else 0
        return replace(found, published=published, wanted=wanted)

    def _read_shared(self, what: str, make: Callable[[], T]) -> T | None:
        result = attempt(what, make)
        if isinstance(result, Failure):
            self.failures.append(replace(result, what=f"{what}: {result.what}"))
            return None
        return result


def _with_shares(versions: tuple[VersionStatus, ...], route: Route | None) -> Iterator[VersionStatus]:
    """Sets each version's share of readers. Without a route, the oldest version that covers anything has all."""
    oldest = min((each.version for each in versions if each.covers), default=None)
    shares = route.shares if route else {oldest: 100}
    for each in versions:
        retired = route is not None and each.version in route.retired
        yield replace(each, share=shares.get(each.version, 0), retired=retired)


def _published_replay(ref: VersionRef) -> ReplayState | None:
    try:
        states = list_states(ref)
    except AnabranchError:  # the page of replays shows which one can't be read
        return None
    return next((state for state in reversed(states) if state.phase == PUBLISHED), None)


def _moment(speed: Snapshot) -> datetime:
    return datetime.fromtimestamp(speed.newest.commit_time_ms / 1000, UTC)


def _streams(settings: Settings) -> Streams:
    statuses = {(each.view, each.version): each for each in read(settings)}
    if not statuses:
        return Streams()
    silent = time.time() - progress_file(settings).stat().st_mtime
    return Streams(statuses, silent if silent > _SILENT_SECONDS else None)
