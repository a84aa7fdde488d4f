"""A home for one trial: its landing tables are mirrors of the platform's, as a replay's are, up to one cut."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import date
from heapq import merge
from operator import itemgetter
from pathlib import Path

from anabranch.change.replay.landing_mirror import LandedCommit, LandedCommits, Mirror
from anabranch.contracts.model.topics import Sources
from anabranch.core.atomic_files import locked
from anabranch.core.settings import Settings
from anabranch.ingest.landing.table.event_counts import EpochCounts, events_since
from anabranch.lake.cut import Cut
from anabranch.lake.layout import FILES_DELETED, landing_files_lock, landing_table
from anabranch.lake.log.delta_tables import delta_table
from anabranch.views import View

_SLICES = 4
"""In how many steps the stream gets the events: with one it would never continue from its state."""


@contextmanager
def temporary_home(settings: Settings) -> Iterator[Settings]:
    """The same settings with a home of their own, which is deleted after the block, whatever ends it."""
    home = Path(tempfile.mkdtemp(prefix="anabranch-try-"))
    try:
        yield settings.model_copy(update={"home": home})
    finally:
        # Not TemporaryDirectory: it may change the rights of what a link leads to.
        shutil.rmtree(home, ignore_errors=True)


Step = tuple[Mapping[str, int], Cut]
"""Versions of landing tables by topic, and the cut that is reached once they are released."""


@dataclass(frozen=True)
class MirroredLanding:
    """The landing tables of a view in a temporary home; they show events only once they are released."""

    mirrors: Mapping[str, Mirror]
    counts: Sequence[EpochCounts]
    steps: Sequence[Step]

    @property
    def uris(self) -> dict[str, str]:
        return {topic: mirror.uri for topic, mirror in self.mirrors.items()}

    def release(self) -> Iterator[Cut]:
        """Releases the commits step by step; yields the cut of each step."""
        for versions, cut in self.steps:
            for name, version in versions.items():
                self.mirrors[name].release(version)
            yield cut


def mirrored(
    live: Settings, temporary: Settings, view: View, topics: Sources, cut: Cut, days: Collection[date] | None
) -> MirroredLanding:
    """Mirrors the landing of ``topics`` up to ``cut``. ``days``: the event dates whose events the view needs (None:
    all); they are counted."""
    lock = landing_files_lock(live)
    # Maintenance makes this file before it deletes anything; we make none in a home that isn't ours.
    with locked(lock, shared=True, wait=FILES_DELETED) if lock.exists() else nullcontext():
        tables = {topic.name: landing_table(live, topic.name) for topic in topics.each}
        mirrors = {name: Mirror(uri, Path(landing_table(temporary, name))) for name, uri in tables.items()}
        counts = list[EpochCounts]()
        for topic in topics.each:
            types = [name for name in view.events if name in topic.event_types]
            counts += events_since(delta_table(tables[topic.name]), types, _since(days), cut.epoch(topic.name))
        carriers = {name: topics.carrier(name).name for name in view.events}
        return MirroredLanding(mirrors, counts, steps_of(tables, counts, carriers, cut))


def steps_of(
    tables: Mapping[str, str], counts: Sequence[EpochCounts], carriers: Mapping[str, str], cut: Cut
) -> list[Step]:
    """Steps up to ``cut`` with about as many of the view's events each, by its ``counts``. ``tables``: landing's, by
    topic; ``carriers``: the topic of each event type. Commits are read in the order of their times, one at a time."""
    weights = dict[tuple[str, int], int]()
    for each in counts:
        key = (carriers[each.type], each.epoch)
        weights[key] = weights.get(key, 0) + each.events
    share = max(1, -(-sum(weights.values()) // _SLICES))
    found, done, waiting, reached = list[Step](), 0, dict[str, int](), Cut()
    for _, topic, commit in merge(*(_up_to(*table, cut) for table in tables.items()), key=itemgetter(0)):
        waiting[topic] = commit.version
        if commit.cut is not None:
            reached = reached.joined(commit.cut)
            done += weights.get((topic, commit.cut.epoch(topic)), 0)
        if done >= share:
            found.append((waiting, reached))
            done, waiting = 0, {}
    return [*found, (waiting, reached)] if waiting else found


def _since(days: Collection[date] | None) -> Callable[[date], int | None]:
    return lambda day: 0 if days is None or day in days else None


def _up_to(topic: str, uri: str, cut: Cut) -> Iterator[tuple[int, str, LandedCommit]]:
    """The commits up to the cut's epoch, each with a commit time made monotonic, since clocks may go back."""
    time = 0
    for commit in LandedCommits(uri).read_new():
        if commit.cut is not None and commit.cut.epoch(topic) > cut.epoch(topic):
            return
        time = max(time, commit.commit_time_ms)
        yield time, topic, commit
